from pydantic_ai import Agent, BinaryContent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def ask(url: str, contestant: str, words: str, picture: bytes) -> str:
    provider = OpenAIProvider(base_url=url, api_key="none")
    agent = Agent(OpenAIChatModel(contestant, provider=provider))
    image = BinaryContent(data=picture, media_type="image/png")
    return agent.run_sync([image, words]).output
