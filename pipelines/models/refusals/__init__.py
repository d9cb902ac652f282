"""Parsing of error responses: whether a content filter stopped the request, and how long to
wait."""
