"""Partial runs: one step in several calls (partial_run_setup, partial_run), on our server and on a
genuine one."""

import pytest
import tensorflow as tf

from conftest import tf1


def graph_of_three():
    a = tf1.placeholder(tf.float32, [])
    b = tf1.placeholder(tf.float32, [])
    c = tf1.placeholder(tf.float32, [])
    return a, b, c, a + b, (a + b) * c


def test_two_parts(session):
    a, b, c, first, second = graph_of_three()
    handle = session.partial_run_setup([first, second], [a, b, c])
    got = session.partial_run(handle, first, {a: 1, b: 2})
    assert got == 3
    assert session.partial_run(handle, second, {c: got * 17}) == 153


def test_runs_overlap(session):
    a, b, c, first, second = graph_of_three()
    handles = [session.partial_run_setup([first, second], [a, b, c]) for _ in range(3)]
    for i, handle in enumerate(handles):
        assert session.partial_run(handle, first, {a: i, b: 1}) == i + 1
    for i, handle in reversed(list(enumerate(handles))):
        assert session.partial_run(handle, second, {c: 2}) == 2 * (i + 1)


def test_feed_first_fetch_later(session):
    a, b, c, first, second = graph_of_three()
    handle = session.partial_run_setup([first, second], [a, b, c])
    session.partial_run(handle, [], {a: 1})
    session.partial_run(handle, [], {b: 2, c: 3})
    assert session.partial_run(handle, [first, second]) == [3, 9]


def test_what_was_fed_cannot_be_fed_again(session):
    a, b, c, first, second = graph_of_three()
    handle = session.partial_run_setup([first, second], [a, b, c])
    session.partial_run(handle, first, {a: 1, b: 2})
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.partial_run(handle, second, {a: 1, c: 2})


def test_fetch_that_needs_a_missing_feed(session):
    a, b, c, first, second = graph_of_three()
    handle = session.partial_run_setup([first, second], [a, b, c])
    with pytest.raises(tf.errors.InvalidArgumentError, match="can't be computed"):
        session.partial_run(handle, second, {a: 1, b: 2})


def test_fetch_outside_the_setup(session):
    a, b, c, first, second = graph_of_three()
    handle = session.partial_run_setup([first], [a, b])
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.partial_run(handle, second, {a: 1, b: 2})


def test_unknown_handle(session):
    a, b, c, first, second = graph_of_three()
    session.run(tf.constant(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must run PartialRunSetup before"):
        session.partial_run("no such run", first, {a: 1, b: 2})
