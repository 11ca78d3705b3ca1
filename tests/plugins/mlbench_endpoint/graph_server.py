"""A server of KServe's protocol for tests, on the standard library alone; ONNX Runtime computes every answer."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime

BINARY = "binary_tensor_data"
HEADER = "Inference-Header-Content-Length"

ORT_TYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64", "tensor(int32)": "INT32"}
DTYPES = {"FP32": np.float32, "INT64": np.int64, "INT32": np.int32}


class Served:
    """One ONNX file under a name."""

    def __init__(self, name, file):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.name, self.session = name, onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def metadata(self):
        def specs(tensors):
            return [
                {
                    "name": each.name,
                    "datatype": ORT_TYPES[each.type],
                    "shape": [size if isinstance(size, int) else -1 for size in each.shape],
                }
                for each in tensors
            ]

        session = self.session
        told = {"inputs": specs(session.get_inputs()), "outputs": specs(session.get_outputs())}
        return {"name": self.name, "versions": ["1"], "platform": "onnxruntime", **told}

    def infer(self, fields, tensors):
        """Return the JSON of an answer, and the tensors that follow it."""
        inputs = {}
        for each in fields["inputs"]:
            dtype, shape = DTYPES[each["datatype"]], each["shape"]
            if "data" in each:
                array = np.array(each["data"], dtype)
            else:
                size = each["parameters"]["binary_data_size"]
                array, tensors = np.frombuffer(tensors[:size], dtype), tensors[size:]
            inputs[each["name"]] = array.reshape(shape)
        assert not tensors
        wanted = fields["outputs"]
        arrays = self.session.run([each["name"] for each in wanted], inputs)
        outputs, following = [], b""
        names = {dtype: name for name, dtype in DTYPES.items()}
        for each, array in zip(wanted, arrays, strict=True):
            output = {"name": each["name"], "datatype": names[array.dtype.type], "shape": list(array.shape)}
            if (each.get("parameters") or {}).get("binary_data"):
                output["parameters"] = {"binary_data_size": array.nbytes}
                following += array.tobytes()
            else:
                output["data"] = array.tolist()
            outputs.append(output)
        return {"model_name": self.name, "model_version": "1", "id": fields["id"], "outputs": outputs}, following


class GraphServer(ThreadingHTTPServer):
    """Serves models; what it was sent is kept, and what it says may be changed on the way out."""

    daemon_threads = True

    def __init__(self, models, extensions=(BINARY,)):
        super().__init__(("127.0.0.1", 0), Handler)
        self.models, self.extensions = models, list(extensions)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.change = lambda fields, following: (fields, following)
        """Of each answer."""
        self.fails = lambda number: None
        """Status and JSON of an error, by the number of the request."""
        self.requests, self.binary, self.connections, self.keys = 0, 0, 0, set()
        self.at_once, self.most_at_once, self.lock = 0, 0, threading.Lock()

    def handle_error(self, request, client_address):
        """Say nothing: clients of tests hang up."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def log_message(self, *told):
        """Log nothing."""

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        if parts == ["v2"]:
            self.reply(200, {"name": "graph_server", "version": "1", "extensions": self.server.extensions})
        elif parts[:2] == ["v2", "models"] and parts[2] in self.server.models:
            self.reply(200, self.server.models[parts[2]].metadata())
        else:
            self.reply(404, {"error": f"no such thing as {self.path}"})

    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with server.lock:
            number, server.requests = server.requests, server.requests + 1
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            server.binary += HEADER in self.headers
            server.keys.add(self.headers.get("Authorization"))
        try:
            if failure := server.fails(number):
                self.reply(*failure)
                return
            size = int(self.headers.get(HEADER, len(body)))
            model = server.models[self.path.split("/")[3]]
            answer = model.infer(json.loads(body[:size]), body[size:])
        except Exception as error:
            self.reply(400, {"error": f"it cannot be computed: {error}"})
            return
        finally:
            with server.lock:
                server.at_once -= 1
        self.reply(200, *server.change(*answer))

    def reply(self, status, fields, following=b"", headers=()):
        text = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
        self.send_response(status)
        if following:
            self.send_header(HEADER, str(len(text)))
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text) + len(following)))
        self.end_headers()
        self.wfile.write(text + following)


@contextmanager
def serving(files, extensions=(BINARY,)):
    """Give a server of ONNX files by name."""
    server = GraphServer({name: Served(name, file) for name, file in files.items()}, extensions)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
