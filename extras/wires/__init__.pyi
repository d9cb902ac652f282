from .native import GeminiAPI as GeminiAPI, MessagesAPI as MessagesAPI, ResponsesAPI as ResponsesAPI
