from .render import render_page as render_page
