# mlbench on a CPU. Build it in a checkout; it has not been built or run yet:
#   docker build -f examples/docker/cpu.Dockerfile -t mlbench:1 .
# torch's build for CPUs is much smaller. pip prefers it where PyTorch's own index is given as well:
#   --build-arg PIP_EXTRA_INDEX_URL=<the address for CPUs on PyTorch's page>
# Measure on cores that nothing else uses: docker run --cpuset-cpus 2-9 -v "$PWD/results:/results" mlbench:1 run resnet50
FROM python:3.12-slim

# Language models on PyTorch are compiled ahead of time with a C++ compiler.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

ARG PIP_EXTRA_INDEX_URL
COPY . /opt/mlbench
RUN pip install --no-cache-dir --constraint /opt/mlbench/constraints.txt '/opt/mlbench[cpu,report]'

RUN useradd --create-home mlbench && install --directory --owner=mlbench /results /cache /data /settings
USER mlbench
ENV MLBENCH_RESULTS=/results MLBENCH_CACHE=/cache MLBENCH_DATA=/data MLBENCH_SETTINGS=/settings/settings.toml
WORKDIR /home/mlbench
ENTRYPOINT ["mlbench"]
CMD ["demo"]
