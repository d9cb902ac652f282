from .server import studio_widget as studio_widget
