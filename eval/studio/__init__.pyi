from .widget import studio_widget as studio_widget
