import base64

import litellm


def ask(url: str, contestant: str, words: str, picture: bytes) -> str:
    image = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    content = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": words}]
    turns = [{"role": "user", "content": content}]
    model = f"openai/{contestant}"
    reply = litellm.completion(model, turns, api_base=url, api_key="none")
    return reply.choices[0].message.content
