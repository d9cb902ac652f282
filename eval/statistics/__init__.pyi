from .paired import compare_paired as compare_paired
