"""Values, the socket, the door to the model and the configuration: what every other folder stands on."""
