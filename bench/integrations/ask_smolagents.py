import io

from PIL import Image
from smolagents import OpenAIModel


def ask(url: str, contestant: str, words: str, picture: bytes) -> str:
    model = OpenAIModel(contestant, api_base=url, api_key="none")
    image = {"type": "image", "image": Image.open(io.BytesIO(picture))}
    content = [image, {"type": "text", "text": words}]
    return model([{"role": "user", "content": content}]).content
