//! Kernels of CUDA graphs: the captured operation of each.

use crate::tests::links::gpu_work::{fates, links};
use crate::tests::stream::Stream;
use model::links::gpu_work::Link;
use nccl_events::Body;
use nccl_events::archive::Timing;
use nccl_events::gpu::{GpuCount, GpuRecord, Kernel};

/// A kernel of a graph; `node` is the clone's number.
fn add_node(stream: &mut Stream, graph: u32, node: u64, span: (u64, u64)) {
    let kernel = Kernel { graph, graph_node: node, ..stream.kernel(span) };
    stream.gpu(9000, 0, GpuRecord::Kernel(kernel));
}

/// Two captured collectives, each replayed twice; the second replay of the second is reported only on request.
fn captured(all_reported: bool) -> Stream {
    let mut stream = Stream::with_gpu();
    stream.collective(10, 100, true);
    stream.collective(30, 120, true);
    for (id, call, at) in [(50, 11, 5000), (60, 31, 5001), (70, 11, 6000), (80, 31, 6001)] {
        if id == 80 && !all_reported {
            continue;
        }
        stream.add_coll(id, call, (at, at + 1), id + 1000);
    }
    stream
}

#[test]
fn kernels_of_a_graph_are_tied_to_what_was_captured_by_their_order() {
    let mut stream = captured(true);
    for (node, span) in [(4, (5100, 5200)), (9, (5010, 5090)), (9, (6010, 6090)), (4, (6100, 6200))] {
        add_node(&mut stream, 1, node, span);
    }
    let built = stream.build();
    // The first two were reported at capture.
    let spans: Vec<_> = built.operations().iter().map(|o| (o.0, o.1, o.2)).collect();
    let ran = |start, end| (start, end, Timing::Cupti);
    let expected = [ran(5010, 5090), ran(5100, 5200), ran(6010, 6090), ran(6100, 6200)];
    assert_eq!(spans[2..], expected);
    assert_eq!(links(&built), [50, 60, 70, 80].map(|id| (Link::CapturedLaunch, 0, id)));
    assert_eq!(fates(&built).kernels_of_graphs, 4);
}

#[test]
fn kernels_are_tied_to_their_launch_only_where_replays_are_missing_or_reported_later() {
    for (all_reported, first, expected) in [(false, 5010, [50, 32, 70, 32]), (true, 4010, [12, 60, 12, 80])] {
        let mut stream = captured(all_reported);
        for (node, start) in [(4, first), (7, 5100), (4, 6010), (7, 6100)] {
            add_node(&mut stream, 1, node, (start, start + 80));
        }
        let parents: Vec<u64> = links(&stream.build()).iter().map(|link| link.2).collect();
        assert_eq!(parents, expected);
    }
}

#[test]
fn what_a_graph_could_be_is_not_guessed() {
    let nodes = |build: &dyn Fn(&mut Stream)| {
        let mut stream = captured(true);
        build(&mut stream);
        let built = stream.build();
        let timings: Vec<Timing> = built.operations().iter().map(|o| o.2).collect();
        assert!(!timings.contains(&Timing::Cupti), "{timings:?}");
        fates(&built).kernels_of_graphs_unknown
    };
    // More nodes than launches, fewer, two graphs, and some that CUPTI dropped.
    let three = |stream: &mut Stream| {
        for (node, start) in [(4, 5010), (5, 5110), (6, 5210)] {
            add_node(stream, 1, node, (start, start + 50));
        }
    };
    assert_eq!(nodes(&three), 3);
    assert_eq!(nodes(&|stream| add_node(stream, 1, 4, (5010, 5090))), 1);
    let two_graphs = |stream: &mut Stream| {
        add_node(stream, 1, 4, (5010, 5090));
        add_node(stream, 2, 7, (5110, 5190));
    };
    assert_eq!(nodes(&two_graphs), 2);
    // Captured on two streams, they may run in any order.
    let two_streams = |stream: &mut Stream| {
        for (id, start) in stream.starts_mut() {
            if let Body::KernelLaunch(launch) = &mut start.body {
                launch.stream += id;
            }
        }
        add_node(stream, 1, 4, (5010, 5090));
        add_node(stream, 1, 7, (5110, 5190));
    };
    assert_eq!(nodes(&two_streams), 2);
    let dropped = |stream: &mut Stream| {
        for (node, start) in [(4, 5010), (7, 5110), (4, 6010), (7, 6110)] {
            add_node(stream, 1, node, (start, start + 50));
        }
        let mut counts = [0; GpuCount::COUNT];
        counts[GpuCount::DroppedByCupti as usize] = 1;
        stream.gpu(9500, 0, GpuRecord::Counts(counts));
    };
    assert_eq!(nodes(&dropped), 4);
}
