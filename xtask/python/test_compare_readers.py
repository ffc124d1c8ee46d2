"""The comparison of readers must notice what it is there to notice."""

import copy
import math
import unittest

import compare_readers
import otf2_print
from compare_readers import OURS, PRINT, PYTHON, Difference, compare

HEAD = ["", "=== OTF2-PRINT ===", "=== Events ===", "Event   Location   Timestamp  Attributes", "-" * 80]
INDENT = " " * 71


def read(*lines):
    return list(otf2_print.events([*HEAD, *lines]))


class Printed(unittest.TestCase):
    def test_every_part_of_a_line_is_read(self):
        self.assertEqual(
            read(
                'ENTER                                         7   1795276126568985036  Region: "a" b" <15>',
                f'{INDENT}ADDITIONAL ATTRIBUTES: ("n" <1>; UINT64; 9), ("s" <2>; STRING; "x, (y)" <3>), ("f" <4>;'
                ' DOUBLE; 1.62865e+06), ("i" <5>; INT32; -3), ("e" <2>; STRING; "" <9>)',
                "MPI_COLLECTIVE_BEGIN                          7   1795276126568985037  ",
                "MPI_COLLECTIVE_END                            7   1795276126568985038  Operation: ALLREDUCE,"
                ' Communicator: "c, d" <2>, Root: NONE, Sent: 1, Received: 2',
                "MPI_IRECV                                     7   1795276126568985039  Sender: 3"
                ' ("NCCL (x) rank 3/4" <3>), Communicator: "c" <0>, Tag: 4, Length: 5, Request: 6',
                "METRIC                                        8   1795276126568985040  Metric: 1, 2 Values:"
                ' ("m" <1>; UINT64; 1159933), ("o" <2>; DOUBLE; 0.5)',
            ),
            [
                (
                    7,
                    (
                        "Enter",
                        1795276126568985036,
                        {"region": 'a" b', "regionRef": 15},
                        [("n", 9), ("s", "x, (y)"), ("f", "1.62865e+06"), ("i", -3), ("e", "")],
                    ),
                ),
                (7, ("MpiCollectiveBegin", 1795276126568985037, {}, [])),
                (
                    7,
                    (
                        "MpiCollectiveEnd",
                        1795276126568985038,
                        {"operation": "ALLREDUCE", "comm": "c, d", "commRef": 2, "bytesSent": 1, "bytesReceived": 2},
                        [],
                    ),
                ),
                (
                    7,
                    (
                        "MpiIrecv",
                        1795276126568985039,
                        {"peer": 3, "comm": "c", "commRef": 0, "tag": 4, "bytes": 5, "request": 6},
                        [],
                    ),
                ),
                (
                    8,
                    ("Metric", 1795276126568985040, {"metricRef": 1, "metrics": ["m", "o"], "values": [1159933, "0.5"]}, []),
                ),
            ],
        )

    def test_a_name_may_have_line_breaks(self):
        [(_, event), _] = read(
            'ENTER            7   1  Region: "one',
            'two" <15>',
            "MPI_COLLECTIVE_BEGIN  7   2  ",
        )
        self.assertEqual(event[2], {"region": "one\ntwo", "regionRef": 15})

    def test_what_is_not_understood_is_said(self):
        for line in [
            'ENTER            7   1  Region: "a"',
            'LEAVE            7   1  Region: "a" <1>, Somewhere: 3',
            'METRIC           7   1  Metric: 1, 1 Value: ("m" <1>; UINT64 1159933)',
        ]:
            with self.subTest(line=line), self.assertRaises(otf2_print.Unreadable):
                read(line)

    def test_a_record_of_another_kind_is_known_by_name(self):
        self.assertEqual(read("RMA_WIN_CREATE  7   1  Window: ..."), [(7, ("RmaWinCreate", 1, None, []))])


def events():
    fields = {"region": "r", "regionRef": 1}
    return [
        (1, ("Enter", 10, fields, [("n", 1), ("f", 1 / 3)])),
        (2, ("Enter", 10, fields, [])),
        (1, ("Metric", 11, {"metricRef": 0, "metrics": ["m"], "values": [2 / 3]}, [])),
        (1, ("Leave", 12, fields, [])),
        (2, ("Leave", 12, fields, [])),
    ]


def readers(printed=None, python=None, ours=None):
    as_printed = [(location, compare_readers.as_printed(event)) for location, event in events()]
    return {PRINT: printed or as_printed, PYTHON: python or events(), OURS: ours or events()}


class Compare(unittest.TestCase):
    def test_the_same_is_the_same_and_counted(self):
        counted, kinds, attributes = compare(readers())
        self.assertEqual((counted, attributes), ({1: 3, 2: 2}, 2))
        self.assertEqual(kinds, {"Enter": 2, "Leave": 2, "Metric": 1})

    def test_locations_may_come_in_any_order_at_one_time(self):
        swapped = events()
        swapped[0], swapped[1] = swapped[1], swapped[0]
        compare(readers(ours=swapped))

    def test_events_of_a_location_may_not(self):
        swapped = events()
        swapped[2], swapped[3] = swapped[3], swapped[2]
        with self.assertRaises(Difference) as found:
            compare(readers(python=swapped))
        self.assertEqual((found.exception.report["location"], found.exception.report["index"]), (1, 1))

    def test_each_thing_that_differs_is_found(self):
        for reader in (PRINT, PYTHON, OURS):
            for index in range(5):
                for place, value in [(0, "Other"), (1, 9), (2, {}), (3, [("n", 2)])]:
                    all_readers = readers()
                    changed = copy.deepcopy(list(all_readers[reader]))
                    location, event = changed[index]
                    changed[index] = (location, (*event[:place], value, *event[place + 1 :]))
                    with self.subTest(reader=reader, index=index, place=place):
                        self.assertRaises(Difference, compare, {**all_readers, reader: changed})
            with self.subTest(reader=reader):
                all_readers = readers()
                self.assertRaises(Difference, compare, {**all_readers, reader: all_readers[reader][:-1]})
                more = [*all_readers[reader], (3, events()[0][1])]
                self.assertRaises(Difference, compare, {**all_readers, reader: more})

    def test_only_otf2_print_may_round(self):
        near = events()
        near[0] = (1, ("Enter", 10, near[0][1][2], [("n", 1), ("f", 0.333333)]))
        self.assertRaises(Difference, compare, readers(ours=near))
        far = readers()
        far[PRINT][2] = (1, ("Metric", 11, {"metricRef": 0, "metrics": ["m"], "values": ["0.666666"]}, []))
        self.assertRaises(Difference, compare, far)

    def test_numbers_that_json_does_not_have(self):
        self.assertEqual([compare_readers.number(value) for value in (math.nan, math.inf, 0.5)], ["NaN", "inf", 0.5])
        self.assertEqual(
            [compare_readers.rounded(value) for value in ("NaN", "inf", 1e300, 2 / 3)],
            ["nan", "inf", "1e+300", "0.666667"],
        )


if __name__ == "__main__":
    unittest.main()
