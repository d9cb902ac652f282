"""How the image processors of models prepare pictures for their encoders."""
