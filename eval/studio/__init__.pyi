from .draft import Draft as Draft
