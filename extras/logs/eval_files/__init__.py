"""Writing of inspect_ai's `.eval` files without pandas: the zip archive (`zip_writer`), the JSON of
samples and headers (`samples`), and the export of a run (`runs`).

Not here: reading them (`extras.logs.inspect_ai`).
"""
