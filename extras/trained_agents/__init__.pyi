from .tools import CodeCalls as CodeCalls, Edit as Edit, ZoomIn as ZoomIn
