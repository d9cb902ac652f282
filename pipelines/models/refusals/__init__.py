"""Parsing of error responses: whether a content filter stopped the request, how long to wait."""
