"""inspect_ai's `.eval` files, written without pandas: the zip archive (`zip_writer`), the JSON of
samples and headers (`samples`), and a run as files (`runs`).

Not here: reading them (`extras.logs.inspect_ai`).
"""
