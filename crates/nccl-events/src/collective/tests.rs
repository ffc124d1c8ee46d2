use super::*;

/// NCCL's name, whether it has a root, whether it moves bytes, whether it sends; elements in the buffers of the root
/// and of another rank for a count of 10 on 4 ranks, as documented in NCCL's API.
type Facts = (&'static str, bool, bool, Option<bool>, [(u64, u64); 2]);

const FACTS: [Facts; 11] = [
    ("AllReduce", false, false, None, [(10, 10), (10, 10)]),
    ("AllGather", false, true, None, [(10, 40), (10, 40)]),
    ("ReduceScatter", false, false, None, [(40, 10), (40, 10)]),
    ("AlltoAll", false, true, None, [(40, 40), (40, 40)]),
    ("Broadcast", true, true, None, [(10, 10), (10, 10)]),
    ("Scatter", true, true, None, [(40, 10), (0, 10)]),
    ("Reduce", true, false, None, [(10, 10), (10, 10)]),
    ("Gather", true, true, None, [(10, 40), (10, 0)]),
    ("Send", false, false, Some(true), [(10, 10), (10, 10)]),
    ("Recv", false, false, Some(false), [(10, 10), (10, 10)]),
    ("SendRecv", false, false, None, [(10, 10), (10, 10)]),
];

#[test]
fn each_function_has_its_facts() {
    for (function, (name, has_root, moves_bytes, is_send, elements)) in Function::ALL.into_iter().zip(FACTS) {
        assert_eq!(Function::named(name), Some(function));
        assert_eq!(function.name(), name);
        let collective = function.collective();
        assert_eq!(collective.is_some_and(Collective::has_root), has_root, "{name}");
        assert_eq!(collective.is_some_and(Collective::moves_bytes), moves_bytes, "{name}");
        assert_eq!(function.is_send(), is_send, "{name}");
        assert_eq!([true, false].map(|is_root| function.elements(10, 4, is_root)), elements, "{name}");
    }
    assert_eq!(Function::named("PutSignal"), None);
}

#[test]
fn regions_are_named_after_functions() {
    assert_eq!(Function::from_region("ncclSend"), Some(Function::Send));
    assert_eq!(Function::from_region("ncclAllGather (CE) enqueue"), Function::named("AllGather"));
    assert_eq!(Function::from_region("AllGather"), None);
}

/// The table in docs/MAPPING.md §5, "Communication records", follows Score-P's convention.
#[test]
fn bytes_are_those_of_the_documentation() {
    let page = include_str!("../../../../docs/MAPPING.md");
    let table = page.split("| NCCL | OTF2 | bytes sent / received |").nth(1).expect("the table");
    let mut rows = 0;
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let collective = Collective::named(cells[1]).expect(cells[1]);
        let (on_root, elsewhere) = match cells[3] {
            "N·b / N·b" => ((40, 40), (40, 40)),
            "root sends N·b, all receive b" => ((40, 10), (0, 10)),
            "all send b, root receives N·b" => ((10, 40), (10, 0)),
            other => panic!("{other}"),
        };
        assert_eq!(collective.bytes(10, 4, true), on_root, "{}", cells[1]);
        assert_eq!(collective.bytes(10, 4, false), elsewhere, "{}", cells[1]);
        assert_eq!(collective.has_root(), cells[3].contains("root"), "{}", cells[1]);
        rows += 1;
    }
    assert_eq!(rows, 8);
}

/// The output of nccl-tests for a run of 2 ms on 8 ranks, with 1 000 000 float32 as the call's count. The size is the
/// buffer of a rank with all elements: count × 4 if `count` is the whole, times ranks if `count` is a piece.
#[test]
fn bandwidths_follow_nccl_tests() {
    const WHOLE: f64 = 4e6;
    const PIECES: f64 = 8.0 * 4e6;
    for (func, size, factor) in [
        ("AllReduce", WHOLE, 2.0 * 7.0 / 8.0),
        ("Broadcast", WHOLE, 1.0),
        ("Reduce", WHOLE, 1.0),
        ("AllGather", PIECES, 7.0 / 8.0),
        ("ReduceScatter", PIECES, 7.0 / 8.0),
        ("AlltoAll", PIECES, 7.0 / 8.0),
        ("Gather", PIECES, 7.0 / 8.0),
        ("Scatter", PIECES, 7.0 / 8.0),
    ] {
        let collective = Collective::named(func).expect("known");
        let (algorithm, bus) = collective.bandwidths(4_000_000, 8, 2e-3);
        assert!((algorithm / (size / 2e-3) - 1.0).abs() < 1e-12, "{func}");
        assert!((bus / algorithm - factor).abs() < 1e-12, "{func}");
    }
    // With a single rank the bus factor is 0 or 1.
    for (func, alone) in [("AllReduce", 0.0), ("AllGather", 0.0), ("Broadcast", 100.0_f64)] {
        let bus = Collective::named(func).expect("known").bandwidths(100, 1, 1.0).1;
        assert!((bus - alone).abs() < 1e-12, "{func}");
    }
}
