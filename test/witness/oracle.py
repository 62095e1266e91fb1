"""Holds every answer to botocore's own models of the services: members that are required are there, none is unknown,
values have their types, enumerations their values. Import it before making clients, and end with oracle.done()."""

import collections
import datetime
import json
import os
import sys
import time
import xml.etree.ElementTree

import boto3
import botocore.session

session = botocore.session.get_session()
boto3.setup_default_session(botocore_session=session)
checked = collections.Counter()
wrong = []


def say(where, what):
    line = f"{where}: {what}"
    if line not in wrong:
        wrong.append(line)


def check(value, shape, where):
    kind = shape.type_name
    if kind == "structure":
        if not isinstance(value, dict):
            return say(where, f"is {value!r}, not a structure")
        for name in shape.required_members:
            if value.get(name) is None:
                say(where, f"lacks the required member {name}")
        for name, inner in value.items():
            if name not in shape.members:
                say(where, f"has the unknown member {name}")
            elif inner is None:
                say(f"{where}.{name}", "is null")
            else:
                check(inner, shape.members[name], f"{where}.{name}")
    elif kind == "list":
        if not isinstance(value, list):
            return say(where, f"is {value!r}, not a list")
        for inner in value:
            check(inner, shape.member, where + "[]")
    elif kind == "map":
        if not isinstance(value, dict):
            return say(where, f"is {value!r}, not a map")
        for inner in value.values():
            check(inner, shape.value, where + "{}")
    elif kind == "string":
        if not isinstance(value, str):
            say(where, f"is {value!r}, not a string")
        elif shape.enum and value not in shape.enum:
            say(where, f"is {value!r}, which is not in its enumeration")
    elif kind in ("integer", "long"):
        if isinstance(value, bool) or not isinstance(value, int):
            say(where, f"is {value!r}, not a whole number")
    elif kind in ("float", "double", "timestamp"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            say(where, f"is {value!r}, not a number")
    elif kind == "boolean" and not isinstance(value, bool):
        say(where, f"is {value!r}, not a boolean")


def check_xml(element, shape, where):
    """The query protocol's answers: their members are there and known; their texts are the parser's to judge."""
    kind = shape.type_name
    if kind == "structure":
        names = {m.serialization.get("name", n): m for n, m in shape.members.items()}
        for inner in element:
            tag = inner.tag.split("}")[-1]
            if tag not in names:
                say(where, f"has the unknown member {tag}")
            else:
                check_xml(inner, names[tag], f"{where}.{tag}")
        for name in shape.required_members:
            if not any(inner.tag.split("}")[-1] == name for inner in element):
                say(where, f"lacks the required member {name}")
    elif kind == "list":
        for inner in element:
            check_xml(inner, shape.member, where + "[]")
    elif kind == "string" and shape.enum and element.text not in shape.enum:
        say(where, f"is {element.text!r}, which is not in its enumeration")
    elif kind == "timestamp":
        datetime.datetime.fromisoformat(element.text)


def before_parse(operation_model, response_dict, **_):
    if response_dict["status_code"] != 200 or operation_model.output_shape is None or operation_model.has_event_stream_output:
        return
    name = operation_model.service_model.service_name + "." + operation_model.name
    if operation_model.service_model.resolved_protocol == "query":
        root = xml.etree.ElementTree.fromstring(response_dict["body"])
        if root.tag != "{%s}%sResponse" % (operation_model.service_model.metadata["xmlNamespace"], operation_model.name):
            say(name, f"is wrapped in {root.tag}")
        check_xml(root[0], operation_model.output_shape, name)
        checked[name] += 1
        return
    if operation_model.service_model.resolved_protocol != "json":
        return
    body = json.loads(response_dict["body"] or b"{}")
    check(body, operation_model.output_shape, name)
    checked[name] += 1


session.register("before-parse", before_parse)


def refused(code, call, *positional, **arguments):
    """Fails unless the call is refused with that code."""
    import botocore.exceptions

    try:
        call(*positional, **arguments)
    except botocore.exceptions.ClientError as e:
        assert e.response["Error"]["Code"] == code, e
        return e
    raise AssertionError(f"{call} was not refused with {code}")


def done():
    for line in wrong:
        print("not as the service's model has it:", line, file=sys.stderr)
    print(f"{sum(checked.values())} answers of {len(checked)} operations were checked")
    sys.exit(1 if wrong or not checked else 0)


def environment():
    for k, v in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        os.environ.setdefault(k, v)


environment()
