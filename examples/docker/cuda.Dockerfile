# mlbench on NVIDIA's GPUs, with PyTorch and ONNX Runtime. Build it in a checkout; it has not been built or run yet:
#   docker build -f examples/docker/cuda.Dockerfile -t mlbench:1-cuda .
#   docker run --gpus all -v "$PWD/results:/results" mlbench:1-cuda run resnet50 --backend pytorch
# pip brings the CUDA and cuDNN libraries; the host brings the driver and NVIDIA's container toolkit.
FROM python:3.12-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

COPY . /opt/mlbench
# ONNX Runtime's build for GPUs replaces the one for CPUs: both write the same files.
RUN pip install --no-cache-dir --constraint /opt/mlbench/constraints.txt \
    '/opt/mlbench[workloads,onnxruntime-gpu,endpoint,power,report]'

# Which of the driver's parts the container toolkit mounts: CUDA, and nvidia-smi with NVML.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

RUN useradd --create-home mlbench && install --directory --owner=mlbench /results /cache /data /settings
USER mlbench
ENV MLBENCH_RESULTS=/results MLBENCH_CACHE=/cache MLBENCH_DATA=/data MLBENCH_SETTINGS=/settings/settings.toml
WORKDIR /home/mlbench
ENTRYPOINT ["mlbench"]
CMD ["demo"]
