"""The training of Pocket: its scenes and questions, its network in torch, and the export of the
weights."""
