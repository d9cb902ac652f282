from .stores import use_result_store as use_result_store
