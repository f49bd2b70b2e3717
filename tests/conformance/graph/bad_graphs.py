"""GraphDefs as text for test_graph_errors.py. Each has one mistake."""
A = 'node { name: "a" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'
I = 'node { name: "i" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }'
T = 'attr { key: "T" value { type: DT_FLOAT } }'
V = ('node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } } '
     'attr { key: "shape" value { shape { } } } }')

BAD = {
    "unknown_op": 'node { name: "x" op: "NoSuchOp" }',
    "no_op": 'node { name: "x" }',
    "no_name": 'node { op: "NoOp" }',
    "bad_name": 'node { name: "x y" op: "NoOp" }',
    "bad_name_colon": 'node { name: "x:0" op: "NoOp" }',
    "duplicate": 'node { name: "x" op: "NoOp" } node { name: "x" op: "NoOp" }',
    "unknown_input": f'{A} node {{ name: "x" op: "Neg" input: "b" {T} }}',
    "unknown_control": f'{A} node {{ name: "x" op: "NoOp" input: "^b" }}',
    "control_with_port": f'{A} node {{ name: "x" op: "NoOp" input: "^a:0" }}',
    "control_before_data": f'{A} node {{ name: "x" op: "Neg" input: "^a" input: "a" {T} }}',
    "empty_input": f'{A} node {{ name: "x" op: "Neg" input: "" {T} }}',
    "no_such_output": f'{A} node {{ name: "x" op: "Neg" input: "a:1" {T} }}',
    "missing_attr": f'{A} node {{ name: "x" op: "Neg" input: "a" }}',
    "missing_attrs": 'node { name: "x" op: "Const" }',
    "wrong_kind": f'{A} node {{ name: "x" op: "Neg" input: "a" attr {{ key: "T" value {{ i: 1 }} }} }}',
    "wrong_list": 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { list { i: 1 } } } }',
    "no_value": f'{A} node {{ name: "x" op: "Neg" input: "a" attr {{ key: "T" value {{ }} }} }}',
    "bad_type": f'{A} node {{ name: "x" op: "Neg" input: "a" attr {{ key: "T" value {{ type: DT_STRING }} }} }}',
    "invalid_type": 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_INVALID } } }',
    "ref_type": 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT_REF } } }',
    "bad_string": f'{A} node {{ name: "x" op: "MaxPool" input: "a" {T} '
                  'attr { key: "ksize" value { list { i: 1 i: 1 i: 1 i: 1 } } } '
                  'attr { key: "strides" value { list { i: 1 i: 1 i: 1 i: 1 } } } '
                  'attr { key: "padding" value { s: "ALMOST" } } }',
    "below_minimum": f'{A} node {{ name: "x" op: "AddN" {T} attr {{ key: "N" value {{ i: 0 }} }} }}',
    "too_short": f'{A} node {{ name: "x" op: "MaxPool" input: "a" {T} '
                 'attr { key: "ksize" value { list { i: 1 } } } '
                 'attr { key: "strides" value { list { i: 1 i: 1 i: 1 i: 1 } } } '
                 'attr { key: "padding" value { s: "SAME" } } }',
    "long_lists": 'library { function { signature { name: "F" attr { name: "m" type: "int" } '
                  'attr { name: "x" type: "list(int)" default_value { list { '
                  + " ".join(f"i: {number}" for number in range(40)) + ' } } } '
                  'attr { name: "f" type: "func" default_value { func { name: "G" '
                  'attr { key: "T" value { type: DT_INT8 } } } } } '
                  'attr { name: "s" type: "string" default_value { s: "' + "long" * 50 + '" } } '
                  'attr { name: "p" type: "shape" default_value { shape { dim { size: -1 } } } } } } } '
                  'node { name: "x" op: "F" }',
    "too_few_inputs": f'{A} node {{ name: "x" op: "Sub" input: "a" {T} }}',
    "too_many_inputs": f'{A} node {{ name: "x" op: "Neg" input: "a" input: "a" {T} }}',
    "wrong_dtype": f'{I} node {{ name: "x" op: "Neg" input: "i" {T} }}',
    "value_for_reference": f'{A} node {{ name: "x" op: "Assign" input: "a" input: "a" {T} }}',
    "self_cycle": f'node {{ name: "x" op: "Neg" input: "x" {T} }}',
    "cycle": f'node {{ name: "x" op: "Neg" input: "y" {T} }} node {{ name: "y" op: "Neg" input: "x" {T} }}',
    "control_cycle": 'node { name: "x" op: "NoOp" input: "^y" } node { name: "y" op: "NoOp" input: "^x" }',
    "cycle_without_merge": f'node {{ name: "n" op: "NextIteration" input: "x" {T} }} '
                           f'node {{ name: "x" op: "Neg" input: "n" {T} }}',
    "min_consumer": 'versions { producer: 99999 min_consumer: 99999 }',
    "different_functions": 'library { function { signature { name: "f" } } '
                           'function { signature { name: "f" is_stateful: true } } }',
    "function_named_as_op": 'library { function { signature { name: "Neg" } } }',
}

GOOD = {
    "empty": "",
    "reference_as_value": f'{V} node {{ name: "x" op: "Neg" input: "v" {T} }}',
    "reference": f'{V} {A} node {{ name: "x" op: "Assign" input: "v" input: "a" {T} }}',
    "underscore_attr": f'{A} node {{ name: "x" op: "Neg" input: "a:0" {T} '
                       'attr { key: "_mine" value { list { } } } }',
    "unknown_attr": f'{A} node {{ name: "x" op: "Neg" input: "a" {T} '
                    'attr { key: "other" value { i: 3 } } }',
    "doubled_control": f'{A} node {{ name: "x" op: "NoOp" input: "^a" input: "^a" }}',
    "absent_list": f'{A} node {{ name: "x" op: "Squeeze" input: "a" {T} '
                   'attr { key: "squeeze_dims" value { } } }',
    "loop": f'{A} node {{ name: "e" op: "Enter" input: "a" {T} attr {{ key: "frame_name" value {{ s: "f" }} }} }} '
            f'node {{ name: "m" op: "Merge" input: "e" input: "n" {T} attr {{ key: "N" value {{ i: 2 }} }} }} '
            f'node {{ name: "n" op: "NextIteration" input: "m" {T} }}',
    "equal_functions": 'library { function { signature { name: "f" } } '
                       'function { signature { name: "f" } } }',
}
