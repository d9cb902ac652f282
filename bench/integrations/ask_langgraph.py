import base64

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def ask(url: str, contestant: str, words: str, picture: bytes) -> str:
    agent = create_agent(ChatOpenAI(model=contestant, base_url=url, api_key="none"), tools=[])
    image = base64.b64encode(picture).decode()
    content = [
        {"type": "image", "base64": image, "mime_type": "image/png"},
        {"type": "text", "text": words},
    ]
    state = agent.invoke({"messages": [{"role": "user", "content": content}]})
    return state["messages"][-1].text
