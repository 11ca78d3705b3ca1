"""KServe's own ModelServer over ONNX files: ``python kserve_server.py PORT name=file.onnx ...``; ONNX Runtime computes.

It runs in an environment of its own, which has kserve and onnxruntime (`nox -s kserve`).
"""

import sys

import numpy as np
import onnxruntime
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer

TYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64", "tensor(int32)": "INT32"}


class OnnxModel(Model):
    """An ONNX file."""

    def __init__(self, name, file):
        super().__init__(name)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.ready = True

    async def get_input_types(self):
        return specs(self.session.get_inputs())

    async def get_output_types(self):
        return specs(self.session.get_outputs())

    def predict(self, payload: InferRequest, headers=None, response_headers=None):
        inputs = {each.name: np.ascontiguousarray(each.as_numpy()) for each in payload.inputs}
        found = self.session.get_outputs()
        outputs = []
        for spec, array in zip(found, self.session.run([each.name for each in found], inputs), strict=True):
            output = InferOutput(name=spec.name, shape=list(array.shape), datatype=TYPES[spec.type])
            output.set_data_from_numpy(array, binary_data=False)
            outputs.append(output)
        wanted = payload.request_outputs
        return InferResponse(payload.id, self.name, outputs, requested_outputs=wanted)


def specs(tensors):
    return [
        {
            "name": each.name,
            "datatype": TYPES[each.type],
            "shape": [size if isinstance(size, int) else -1 for size in each.shape],
        }
        for each in tensors
    ]


if __name__ == "__main__":
    port, *models = sys.argv[1:]
    server = ModelServer(http_port=int(port), enable_grpc=False, workers=1, enable_docs_url=False)
    server.start([OnnxModel(*each.split("=", 1)) for each in models])
