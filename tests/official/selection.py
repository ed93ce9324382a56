"""Which files of openai-python's suite run, and what they need beside openai itself."""

from __future__ import annotations

from pathlib import Path

COMMON_REQUIREMENTS = (
    "pytest-asyncio",
    "pytest-xdist>=3.6.1",
    "pytest-timeout",
    "httpx",
    "respx",
    "inline-snapshot>=0.28",
    "dirty-equals>=0.6",
    "time-machine",
    "nest-asyncio==1.6.0",
    "importlib-metadata>=6.7",
    "rich>=13.7.1",
    "azure-identity>=1.14.1",
    "trio>=0.22.2",
    "griffe>=1",
    "jsonschema",
    "cryptography",
    "httpx-aiohttp",
)
# By major version: the extras of openai, and what its pyproject.toml names for development.
REQUIREMENTS = {
    2: ("openai[aiohttp,realtime,datalib,bedrock,httpx2]=={version}", "pytest<9"),
    3: ("openai[aiohttp,realtime,datalib,bedrock,vertex]=={version}", "pytest>=9.0.3", "Pillow"),
}

# Environment switches of the suite that bring in tests which are skipped otherwise.
SWITCHES = {2: {}, 3: {"OPENAI_TEST_LEGACY_HTTPX": "1"}}

# Packaging, workflow and documentation checks of the upstream repository, and tests that look at a fresh interpreter
# in a subprocess: no client of ours takes part in them.
WITHOUT_CLIENTS = (
    "tests/test_uv_workflows.py",
    "tests/test_lazy_imports.py",
    "tests/test_dependency_constraints.py",
    "tests/test_example_security.py",
    "tests/test_readme_metadata.py",
    "tests/test_consumer_compatibility.py",
    "tests/test_mtls_http_client.py",
    "tests/lib/test_realtime_example_keepalive.py",
)

# What exercises the clients themselves: construction, options, retries, streams, responses, credentials, TLS.
CLIENT_FILES = (
    "tests/test_auth.py",
    "tests/test_client*.py",
    "tests/test_data_residency*.py",
    "tests/test_debug_logging.py",
    "tests/test_environment_credentials.py",
    "tests/test_httpx*.py",
    "tests/test_legacy_response.py",
    "tests/test_module_client.py",
    "tests/test_response.py",
    "tests/test_retry_after_overflow.py",
    "tests/test_sse_framing.py",
    "tests/test_status_error_messages.py",
    "tests/test_stream*.py",
    "tests/test_x509*.py",
    "tests/lib/test_azure.py",
    "tests/lib/test_embeddings.py",
    "tests/lib/test_request_credentials.py",
    "tests/lib/chat/*.py",
    "tests/lib/responses/test_responses.py",
    "tests/lib/streaming/**/test_streams.py",
)


def requirements(version: str) -> list[str]:
    """pip requirements for running the suite of that openai version."""
    own = REQUIREMENTS[int(version.split(".")[0])]
    return [*(line.format(version=version) for line in own), *COMMON_REQUIREMENTS]


def client_files(root: Path) -> list[str]:
    """The quick part: the files of CLIENT_FILES that this version has, relative to the suite's root."""
    found = {path for pattern in CLIENT_FILES for path in root.glob(pattern) if path.name.startswith("test_")}
    return sorted(str(path.relative_to(root)) for path in found)


def all_files(root: Path) -> list[str]:
    """pytest arguments for everything but WITHOUT_CLIENTS."""
    return ["tests", *(f"--ignore={name}" for name in WITHOUT_CLIENTS if (root / name).exists())]
