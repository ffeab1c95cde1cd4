# docker build -t modelkin . && docker run --rm -v "$PWD:/work" modelkin compare ./candidate ./base
FROM python:3.12-slim AS built
COPY . /source
RUN pip install --no-cache-dir --prefix=/installed '/source[cloud]'

FROM python:3.12-slim
COPY --from=built /installed /usr/local
# What is fetched is kept below /cache: mount a volume there to keep it between runs.
ENV HF_HOME=/cache
RUN useradd --create-home modelkin && mkdir /cache /work && chown modelkin /cache /work
USER modelkin
WORKDIR /work
VOLUME /cache
ENTRYPOINT ["modelkin"]
CMD ["demo"]
