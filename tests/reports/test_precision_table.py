from mlbench.reports.console import precision_table


def rows(records):
    table = precision_table(records)
    columns = {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}
    return list(zip(columns["backend"], columns["precision"], columns["speed"], columns["loss"], strict=True))


def fast(a_run, backend, precision, value, score):
    run = a_run(backend=backend, precision=precision)
    result = run.result.model_dump() | {"value": value}
    accuracy = run.accuracy.model_dump()
    accuracy["targets"][0]["value"] = score
    return a_run(backend=backend, precision=precision, result=result, accuracy=accuracy)


def test_each_precision_is_compared_with_the_first_of_its_backend(a_run):
    assert rows(
        [
            fast(a_run, "pytorch", "fp32", 100, 90),
            fast(a_run, "onnxruntime", "fp32", 200, 90),
            fast(a_run, "pytorch", "bf16", 150, 89.1),
            fast(a_run, "onnxruntime", "int8", 500, 88.2),
        ]
    ) == [
        ("pytorch", "fp32", "x 1.00", "0.00 %"),
        ("onnxruntime", "fp32", "x 1.00", "0.00 %"),
        ("pytorch", "bf16", "x 1.50", "1.00 %"),
        ("onnxruntime", "int8", "x 2.50", "2.00 %"),
    ]


def test_a_backend_that_stepped_in_for_a_precision_is_compared_with_the_first_of_all(a_run):
    assert rows([fast(a_run, "onnxruntime", "fp32", 200, 90), fast(a_run, "pytorch", "bf16", 100, 89.1)]) == [
        ("onnxruntime", "fp32", "x 1.00", "0.00 %"),
        ("pytorch", "bf16", "x 0.50", "1.00 %"),
    ]
