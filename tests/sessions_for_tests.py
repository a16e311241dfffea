"""A client of the dashboard over a real websocket, as a browser's page is one, without the browser."""

import contextlib
import io
import time
from typing import Any

import pandas as pd
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect


class Session:
    """One visitor. `run` sends what a browser sends when a form is submitted, and waits until the script has ended."""

    def __init__(self, url: str) -> None:
        self._open = contextlib.ExitStack()
        self._socket: ClientConnection = self._open.enter_context(
            connect(url.replace("http", "ws") + "/_stcore/stream", subprotocols=["streamlit"], max_size=None)
        )
        self._kept: dict[str, ForwardMsg] = {}
        self.elements: dict[tuple[int, ...], Any] = {}
        self.exceptions: list[str] = []

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, values: dict[str, str] | None = None, pressed: str = "", timeout: float = 120) -> float:
        """Seconds that a run of the script takes, from the message to its end.

        Args:
            values: of text fields by their labels.
            pressed: label of a button.
            timeout: in seconds.
        """
        message = BackMsg()
        message.rerun_script.query_string = ""
        states = message.rerun_script.widget_states.widgets
        for label, value in (values or {}).items():
            states.add(id=self._id("text_input", label), string_value=value)
        if pressed:
            states.add(id=self._id("button", pressed), trigger_value=True)
        started = time.perf_counter()
        self._socket.send(message.SerializeToString())
        while True:
            found = self._receive(started + timeout)
            if found.HasField("new_session"):
                self.elements, self.exceptions = {}, []
            elif found.HasField("delta"):
                self._take(found)
            elif found.HasField("script_finished") and found.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
                return time.perf_counter() - started

    def _receive(self, deadline: float) -> ForwardMsg:
        data = self._socket.recv(timeout=max(deadline - time.perf_counter(), 0.01))
        message = ForwardMsg.FromString(data if isinstance(data, bytes) else data.encode())
        if message.HasField("ref_hash"):
            kept = self._kept[message.ref_hash]
            kept.metadata.CopyFrom(message.metadata)
            return kept
        if message.hash and message.metadata.cacheable:
            self._kept[message.hash] = message
        return message

    def _take(self, message: ForwardMsg) -> None:
        if not message.delta.HasField("new_element"):
            return
        element = message.delta.new_element
        self.elements[tuple(message.metadata.delta_path)] = element
        if element.HasField("exception"):
            self.exceptions.append(element.exception.message)

    def _id(self, kind: str, label: str) -> str:
        for element in self.elements.values():
            if element.HasField(kind) and getattr(element, kind).label == label:
                return str(getattr(element, kind).id)
        raise LookupError(f"no {kind} {label!r} on the page")

    def tables(self) -> list[pd.DataFrame]:
        """Every table on the page."""
        import pyarrow as pa

        found = []
        for element in self.elements.values():
            if element.HasField("dataframe"):
                found.append(pa.ipc.open_stream(io.BytesIO(element.dataframe.arrow_data.data)).read_pandas())
        return found

    def texts(self) -> str:
        """Everything that the session was sent, as text."""
        with contextlib.suppress(ValueError):
            return "\n".join(str(element) for element in self.elements.values())
        return ""
