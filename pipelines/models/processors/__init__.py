"""The image processors of open models: how each lays out a picture for its encoder."""
