//! Kernels and copies: on which rows, and for which operations.

use crate::stream::{CONTEXT, Drawn, Stream, kernel as kernel_channel};
use journal::format::record::{RecordBody, Symbol};
use journal::part::options::Level;
use nccl_events::Body;
use nccl_events::event;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{ALL_DEVICES, Backend, ClockSample, Copy, GpuClock, GpuRecord, Kernel, LaunchTime};
use nccl_events::{StateArgs, state};
use trace::clocks::gpu::GpuCalibration;
use trace::links::gpu_work::{Fates, GpuStream, Link};
use trace::links::interval::Timing;
use trace::timeline::instance::InstanceKind;
use trace::timeline::location::LocationKey;

/// CUPTI's clock is ahead of the host's by so much, in these tests.
const AHEAD: u64 = 1_000_000;

/// A stream with a communicator of two, on GPU 3, and two samples of CUPTI's clock.
fn stream() -> Stream {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 0);
    gpu(&mut stream, 0, CONTEXT, GpuRecord::DeviceOfCommunicator { ordinal: 3 });
    for time in [0, 10_000] {
        sample(&mut stream, GpuClock::Cupti, ALL_DEVICES, time, time + AHEAD);
    }
    stream
}

fn gpu(stream: &mut Stream, time: u64, id: u64, record: GpuRecord<Symbol>) {
    stream.put(0, time, id, RecordBody::Gpu(record));
}

fn sample(stream: &mut Stream, clock: GpuClock, ordinal: u32, time: u64, gpu_ns: u64) {
    let sample = ClockSample { clock, ordinal, gpu_ns, uncertainty_ticks: 1 };
    gpu(stream, time, 0, GpuRecord::Clock(sample));
}

/// A kernel of NCCL's that ran then, by the host's clock.
fn kernel(stream: &mut Stream, (start, end): (u64, u64)) -> Kernel<Symbol> {
    Kernel {
        correlation: 9,
        device: 3,
        context: 1,
        stream: 7,
        start_ns: start + AHEAD,
        end_ns: end + AHEAD,
        grid: [24, 1, 1],
        block: [544, 1, 1],
        static_shared_bytes: 0,
        dynamic_shared_bytes: 82_240,
        registers_per_thread: 96,
        graph: 0,
        graph_node: 0,
        source_graph_node: 0,
        name: stream.symbols.intern("_Z30ncclDevKernel_AllReduce_Sum_f32v"),
    }
}

fn add_kernel(stream: &mut Stream, id: u64, span: (u64, u64)) {
    let kernel = kernel(stream, span);
    gpu(stream, 9000, id, GpuRecord::Kernel(kernel));
}

const ROW: GpuStream = GpuStream { ordinal: 3, context: 1, stream: 7 };

fn fates(drawn: &Drawn) -> Fates {
    drawn.model.links.gpu.fates
}

fn links(drawn: &Drawn) -> Vec<(Link, u64, u64)> {
    let all = drawn.model.links.gpu.all.iter();
    all.map(|work| (work.link, work.external, work.parent)).collect()
}

#[test]
fn a_kernel_tells_when_its_operation_ran() {
    let mut stream = stream();
    stream.collective(10, 100, false);
    add_kernel(&mut stream, 12, (150, 400));
    stream.options.level = Level::Light;
    let drawn = stream.draw();
    assert_eq!(drawn.operations(), [(150, 400, Timing::Cupti, false)]);
    assert_eq!(drawn.locations[&(LocationKey::Stream(ROW), 0)], [(InstanceKind::Work, 150, 400)]);
    assert_eq!(links(&drawn), [(Link::Launch, 12, 13)]);
    let fates = fates(&drawn);
    assert_eq!((fates.kernels_joined, fates.launches_timed), (1, 1));
    // The row is the GPU's that the communicator uses.
    let comms = &drawn.model.comms;
    assert_eq!(comms.gpus.len(), 1);
    assert_eq!((comms.gpu(3), comms.members[0].gpu), (Some(0), 0));
    let rows = [(LocationKey::Thread(0), 0), (LocationKey::Communicator(0), 0), (LocationKey::Stream(ROW), 0)];
    assert_eq!(drawn.rows, rows);
}

#[test]
fn kernels_outrank_events_and_events_kernel_channels() {
    let build = |with_kernel: bool, with_event: bool| {
        let mut stream = stream();
        for time in [0, 10_000] {
            sample(&mut stream, GpuClock::Events, 3, time, time + 500);
        }
        stream.collective(10, 100, false);
        stream.event(22, 13, (115, Some(170)), kernel_channel(1110));
        let args = StateArgs::GpuTime { gpu_ns: 1150 };
        stream.state(22, 165, state::KERNEL_CH_STOP, args);
        if with_kernel {
            add_kernel(&mut stream, 12, (106, 160));
        }
        if with_event {
            let time = LaunchTime { ordinal: 3, uncertainty_ns: 2, stream: 1, start_ns: 104 + 500, end_ns: 163 + 500 };
            gpu(&mut stream, 9000, 12, GpuRecord::LaunchTime(time));
        }
        stream.draw().operations()[0]
    };
    assert_eq!(build(true, true), (106, 160, Timing::Cupti, false));
    assert_eq!(build(true, false), (106, 160, Timing::Cupti, false));
    assert_eq!(build(false, true), (104, 163, Timing::Event, false));
    assert_eq!(build(false, false).2, Timing::KernelChannel);
}

#[test]
fn one_kernel_carries_several_operations_and_one_operation_has_several_kernels() {
    let mut stream = stream();
    stream.collective(10, 100, false);
    // A second operation in the same plan, called by a call of its own.
    let call = Body::CollApi(event::CollApi {
        func: stream.symbols.intern("AllReduce"),
        count: 1,
        datatype: Symbol::NONE,
        root: 0,
        stream: 1,
        graph_captured: false,
        user_tag: 0,
    });
    let coll = stream.coll(110, 0);
    stream.event(110, 0, (105, Some(109)), Body::Group(event::Group {})).event(14, 10, (102, Some(103)), call).event(
        15,
        14,
        (107, Some(108)),
        coll,
    );
    add_kernel(&mut stream, 12, (150, 400));
    add_kernel(&mut stream, 12, (410, 500));
    let drawn = stream.draw();
    let both = (150, 500, Timing::Cupti, false);
    assert_eq!(drawn.operations(), [both, both]);
    assert!(drawn.model.intervals.iter().flatten().all(|interval| interval.is_shared));
    // Both are the plan's.
    assert_eq!(links(&drawn), [(Link::Launch, 12, 110); 2]);
    assert_eq!(fates(&drawn).launches_timed, 1);
}

#[test]
fn what_overlaps_on_a_stream_goes_to_a_sibling() {
    let mut stream = stream();
    for (id, span) in [(0, (100, 300)), (0, (200, 250)), (0, (300, 310))] {
        add_kernel(&mut stream, id, span);
    }
    let drawn = stream.draw();
    let location = |sibling| &drawn.locations[&(LocationKey::Stream(ROW), sibling)];
    assert_eq!(location(0)[..], [(InstanceKind::Work, 100, 300), (InstanceKind::Work, 300, 310)]);
    assert_eq!(location(1)[..], [(InstanceKind::Work, 200, 250)]);
    assert_eq!((drawn.counts.overflowed, fates(&drawn).kernels_other), (1, 3));
}

#[test]
fn a_kernel_whose_launch_is_not_there_belongs_to_nothing() {
    let mut stream = stream();
    stream.collective(10, 100, false);
    add_kernel(&mut stream, 999, (150, 400));
    // An id of something that launches nothing is none.
    add_kernel(&mut stream, 13, (500, 600));
    let drawn = stream.draw();
    assert_eq!(drawn.operations()[0].2, Timing::Enqueue);
    let expected = [(Link::LaunchUnknown, 999, 0), (Link::LaunchUnknown, 13, 0)];
    assert_eq!(links(&drawn), expected);
    assert_eq!(fates(&drawn).kernels_without_launch, 2);
}

#[test]
fn times_that_cannot_be_placed_are_counted_and_not_shown() {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 0);
    sample(&mut stream, GpuClock::Cupti, ALL_DEVICES, 50, 50 + AHEAD);
    stream.collective(10, 100, false);
    add_kernel(&mut stream, 12, (150, 400));
    let time = LaunchTime { ordinal: 3, uncertainty_ns: 2, stream: 1, start_ns: 5, end_ns: 6 };
    gpu(&mut stream, 9000, 12, GpuRecord::LaunchTime(time));
    let drawn = stream.draw();
    assert_eq!(drawn.operations()[0].2, Timing::Enqueue);
    let fates = fates(&drawn);
    assert_eq!((fates.not_placed, fates.events_not_used, fates.kernels_joined), (1, 1, 0));
    let clocks = &drawn.model.links.gpu.clocks.all;
    assert_eq!(clocks[&(GpuClock::Cupti, ALL_DEVICES)].quality.samples, 1);
}

#[test]
fn a_kernel_that_still_ran_is_unfinished() {
    let mut stream = stream();
    stream.collective(10, 100, false);
    let mut running = kernel(&mut stream, (150, 400));
    running.end_ns = 0;
    gpu(&mut stream, 9000, 12, GpuRecord::Kernel(running));
    assert_eq!(stream.draw().operations(), [(150, 10_000, Timing::Cupti, true)]);
}

#[test]
fn a_copy_engine_collective_ran_while_its_copies_did() {
    let mut stream = stream();
    let collective = Body::CeColl(event::CeColl {
        sequence: 0,
        func: stream.symbols.intern("AllGather"),
        send_buffer: 0,
        recv_buffer: 0,
        count: 8,
        root: 0,
        datatype: Symbol::NONE,
        sync_strategy: Symbol::NONE,
        intra_batch_sync: false,
        batch_size: 0,
        batches: 0,
        ce_sequence: 0,
        stream: 0x70,
        user_tag: 0,
    });
    stream.event(20, 0, (100, Some(130)), collective);
    for (start, end) in [(200, 240), (220, 300)] {
        let copy = Copy {
            correlation: 5,
            device: 3,
            context: 1,
            stream: 8,
            start_ns: start + AHEAD,
            end_ns: end + AHEAD,
            bytes: 4096,
            kind: 8,
            source_kind: 3,
            destination_kind: 3,
            count: 1,
            graph_node: 0,
            source_device: 3,
            destination_device: 2,
        };
        gpu(&mut stream, 9000, 20, GpuRecord::Copy(copy));
    }
    let drawn = stream.draw();
    assert_eq!(drawn.operations(), [(200, 300, Timing::Cupti, false)]);
    assert_eq!(links(&drawn), [(Link::Launch, 20, 20); 2]);
    let fates = fates(&drawn);
    assert_eq!((fates.copies, fates.copies_joined), (2, 2));
    assert_eq!(drawn.counts.overflowed, 1);
}

/// A graph's kernel, the node's clone.
fn add_node(stream: &mut Stream, graph: u32, node: u64, span: (u64, u64)) {
    let kernel = Kernel { graph, graph_node: node, ..kernel(stream, span) };
    gpu(stream, 9000, 0, GpuRecord::Kernel(kernel));
}

/// Two captured collectives, each replayed twice; the second replay of the second is not reported unless asked for.
fn captured(all_reported: bool) -> Stream {
    let mut stream = stream();
    stream.collective(10, 100, true);
    stream.collective(30, 120, true);
    for (id, call, at) in [(50, 11, 5000), (60, 31, 5001), (70, 11, 6000), (80, 31, 6001)] {
        if id == 80 && !all_reported {
            continue;
        }
        let coll = stream.coll(id + 1000, 0);
        stream.event(id, call, (at, Some(at + 1)), coll);
    }
    stream
}

#[test]
fn kernels_of_a_graph_are_tied_to_what_was_captured_by_their_order() {
    let mut stream = captured(true);
    for (node, span) in [(4, (5100, 5200)), (9, (5010, 5090)), (9, (6010, 6090)), (4, (6100, 6200))] {
        add_node(&mut stream, 1, node, span);
    }
    let drawn = stream.draw();
    // The first two were reported at capture.
    let spans: Vec<_> = drawn.operations().iter().map(|o| (o.0, o.1, o.2)).collect();
    let ran = |start, end| (start, end, Timing::Cupti);
    let expected = [ran(5010, 5090), ran(5100, 5200), ran(6010, 6090), ran(6100, 6200)];
    assert_eq!(spans[2..], expected);
    let expected = [50, 60, 70, 80].map(|id| (Link::CapturedLaunch, 0, id));
    assert_eq!(links(&drawn), expected);
    assert_eq!(fates(&drawn).kernels_of_graphs, 4);
}

#[test]
fn where_replays_are_missing_kernels_are_tied_to_their_launch_only() {
    let mut stream = captured(false);
    for (node, span) in [(4, (5010, 5090)), (7, (5100, 5200)), (4, (6010, 6090)), (7, (6100, 6200))] {
        add_node(&mut stream, 1, node, span);
    }
    let drawn = stream.draw();
    let parents: Vec<u64> = links(&drawn).iter().map(|link| link.2).collect();
    assert_eq!(parents, [50, 32, 70, 32]);
}

#[test]
fn a_kernel_that_ran_before_its_replay_was_reported_is_another_one() {
    let mut stream = captured(true);
    for (node, span) in [(4, (4010, 4090)), (7, (5100, 5200)), (4, (6010, 6090)), (7, (6100, 6200))] {
        add_node(&mut stream, 1, node, span);
    }
    let parents: Vec<u64> = links(&stream.draw()).iter().map(|link| link.2).collect();
    assert_eq!(parents, [12, 60, 12, 80]);
}

#[test]
fn what_a_graph_could_be_is_not_guessed() {
    let nodes = |build: &dyn Fn(&mut Stream)| {
        let mut stream = captured(true);
        build(&mut stream);
        let drawn = stream.draw();
        let timings: Vec<Timing> = drawn.operations().iter().map(|o| o.2).collect();
        assert!(!timings.contains(&Timing::Cupti), "{timings:?}");
        fates(&drawn).kernels_of_graphs_unknown
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
    // Captured on two streams they may run in any order.
    let two_streams = |stream: &mut Stream| {
        for record in &mut stream.records {
            if let RecordBody::Start(start) = &mut record.body
                && let Body::KernelLaunch(event::KernelLaunch { stream }) = &mut start.body
            {
                *stream += record.ticks;
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
        gpu(stream, 9500, 0, GpuRecord::Counts(counts));
    };
    assert_eq!(nodes(&dropped), 4);
}

#[test]
fn kernels_are_close_bounds_for_the_timer_of_kernel_channels() {
    let clock = |known: Option<(u64, u64)>| {
        let mut stream = stream();
        stream.collective(10, 100, false);
        // The GPU's timer is 5000 ahead: it began at 2000 and ended at 3000, the host heard of it at 60000.
        stream.event(22, 13, (60_000, Some(60_100)), kernel_channel(7000));
        let args = StateArgs::GpuTime { gpu_ns: 8000 };
        stream.state(22, 60_100, state::KERNEL_CH_STOP, args);
        if let Some(span) = known {
            add_kernel(&mut stream, 12, span);
        }
        stream.draw().model.gpu_clocks[0].clone()
    };
    let without = clock(None);
    assert_eq!((without.quality.calibration, without.quality.kernel_bounds), (GpuCalibration::Bounded, 0));
    let with = clock(Some((1980, 3010)));
    assert_eq!((with.quality.calibration, with.quality.kernel_bounds), (GpuCalibration::Bounded, 2));
    // Between 2000 − 20 and 3000 + 10, and one step of the timer (as far as two stamps show it: 1000), against
    // 103 … 60000.
    assert!(with.quality.residual_ns < 1600 && without.quality.residual_ns > 20_000, "{with:?} {without:?}");
    assert!(with.host_ns(7000).abs_diff(2000) <= with.quality.residual_ns, "{with:?}");
    assert_eq!(with.quality.kernel_slack_ns, 0);
    // The host heard of it 11 µs before that: it is given some slack, and it is said.
    let late = clock(Some((70_000, 71_010)));
    assert_eq!((late.quality.kernel_bounds, late.quality.kernel_slack_ns), (2, 16_000));
    assert!(late.quality.residual_ns < without.quality.residual_ns, "{late:?}");
    // Such as cannot be are not believed.
    let wrong = clock(Some((5_070_000, 5_071_010)));
    assert_eq!((wrong.quality.kernel_bounds, wrong.quality.kernels_contradict), (0, true));
    assert_eq!(wrong.quality.residual_ns, without.quality.residual_ns);
}

#[test]
fn devices_decide_which_ranks_share_a_gpu() {
    let gpus = |ordinals: [u32; 3]| {
        let mut stream = Stream::default();
        // Two ranks of one communicator, and one of another that uses the first one's stream.
        stream.init(CONTEXT, 5, 2, 0).init(CONTEXT + 1, 5, 2, 1);
        stream.init(CONTEXT + 2, 6, 1, 0);
        for (context, ordinal) in (CONTEXT..).zip(ordinals) {
            gpu(&mut stream, 0, context, GpuRecord::DeviceOfCommunicator { ordinal });
        }
        for (context, handle) in [(0, 0x70), (1, 0x80), (2, 0x70)] {
            let launch = Body::KernelLaunch(event::KernelLaunch { stream: handle });
            stream.event_of(CONTEXT + context, 10 + context, 0, (5, Some(6)), launch);
        }
        let comms = stream.draw().model.comms;
        comms.members.iter().map(|member| member.gpu).collect::<Vec<u32>>()
    };
    assert_eq!(gpus([0, 1, 0]), [0, 1, 0]);
    assert_eq!(gpus([0, 1, 1]), [0, 1, 1]);
    assert_eq!(gpus([0, 1, 2]), [0, 1, 2]);
    // Two ranks of a communicator on one GPU, if somebody wants it so.
    assert_eq!(gpus([0, 0, 0]), [0, 0, 0]);
}

#[test]
fn a_device_that_no_rank_is_on_is_a_gpu_too() {
    let mut stream = stream();
    let mut other = kernel(&mut stream, (100, 200));
    other.device = 5;
    gpu(&mut stream, 9000, 0, GpuRecord::Kernel(other));
    let comms = stream.draw().model.comms;
    let ordinals: Vec<_> = comms.gpus.iter().map(|gpu| gpu.ordinal).collect();
    assert_eq!(ordinals, [Some(3), Some(5)]);
}

#[test]
fn cupti_may_number_devices_otherwise() {
    let mut stream = stream();
    stream.collective(10, 100, false);
    let mut kernel = kernel(&mut stream, (150, 400));
    kernel.device = 0;
    gpu(&mut stream, 9000, 12, GpuRecord::Kernel(kernel));
    let drawn = stream.draw();
    assert_eq!(drawn.locations[&(LocationKey::Stream(ROW), 0)].len(), 1);
    assert_eq!(drawn.model.comms.gpus.len(), 1);
}

#[test]
fn where_devices_contradict_what_ran_there_is_believed() {
    let mut stream = Stream::default();
    for (number, device) in (0..).zip([3, 2]) {
        let context = CONTEXT + number;
        stream.init(context, 5, 2, i32::try_from(number).expect("small"));
        gpu(&mut stream, 0, context, GpuRecord::DeviceOfCommunicator { ordinal: 0 });
        let launch = Body::KernelLaunch(event::KernelLaunch { stream: 0x70 });
        stream.event_of(context, 10 + number, 0, (5, Some(6)), launch);
        let kernel = Kernel { device, ..kernel(&mut stream, (100, 200)) };
        gpu(&mut stream, 9000, 10 + number, GpuRecord::Kernel(kernel));
    }
    let drawn = stream.draw();
    let comms = &drawn.model.comms;
    let gpus: Vec<_> = comms.members.iter().map(|member| comms.gpus[member.gpu as usize]).collect();
    assert_eq!([gpus[0].ordinal, gpus[1].ordinal], [Some(3), Some(2)]);
    let said = drawn.model.links.gpu.definition(drawn.model.symbols);
    assert!(said.notices[0].contains("believed"), "{said:?}");
}

#[test]
fn notices_and_totals_are_kept() {
    let mut stream = stream();
    for (way, text) in [(Backend::Cupti, "all is well"), (Backend::Events, "it was taken")] {
        let text = stream.symbols.intern(text);
        gpu(&mut stream, 9000, 0, GpuRecord::Notice { backend: way, text });
    }
    for launches in [3, 7] {
        let mut counts = [0; GpuCount::COUNT];
        counts[0] = launches;
        gpu(&mut stream, 9000, 0, GpuRecord::Counts(counts));
    }
    let drawn = stream.draw();
    let said = drawn.model.links.gpu.definition(drawn.model.symbols);
    assert_eq!(said.backend, "events");
    assert_eq!(said.notices, ["cupti: all is well", "events: it was taken"]);
    assert_eq!(said.counts["LAUNCHES"], 7);
}
