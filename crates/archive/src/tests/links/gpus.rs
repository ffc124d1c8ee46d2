//! Which ranks of a process are taken to share a GPU.

use crate::tests::links::gpu_work::STREAM;
use crate::tests::stream::{CONTEXT, Stream, launch_on};
use journal::format::RecordBody;
use nccl_events::Start;
use nccl_events::gpu::{GpuRecord, Kernel};
use timeline::builder::LocationKey;

#[test]
fn several_ranks_of_a_communicator_in_one_process_are_several_gpus() {
    let mut stream = Stream::default();
    for (context, rank) in [(0, 2), (1, 0), (2, 1), (3, 2)] {
        stream.init(CONTEXT + context, 5, 3, rank);
    }
    // One thread made them all, so nothing shows that the repetition is on the same GPU as the first.
    let comms = stream.build().model.comms;
    assert_eq!(comms.comms.len(), 2, "the last is the same communicator again");
    let gpus: Vec<u32> = comms.members.iter().map(|member| member.gpu).collect();
    assert_eq!(gpus, [2, 0, 1, 3]);
    assert_eq!(comms.comms[1].repetition, 1);
}

/// Two ranks of a communicator of four, then each in its own communicator of two, like `ncclCommSplit` by odd and even.
/// A launch is a context, its thread and CUDA stream. Returns the GPUs, by context.
fn split(launches: &[(u64, u16, u64)]) -> Vec<u32> {
    let mut stream = Stream::default();
    for thread in [0, 1] {
        let thread_id = 100 + u32::from(thread);
        stream.put(thread, 0, 0, RecordBody::ThreadBegin { thread_id, name: String::new() });
    }
    stream.init(CONTEXT, 5, 4, 0).init(CONTEXT + 1, 5, 4, 1);
    // The split numbers its ranks the other way round.
    stream.init(CONTEXT + 2, 6, 2, 1).init(CONTEXT + 3, 7, 2, 0);
    for (id, &(context, thread, cuda_stream)) in (50..).zip(launches) {
        let start = Start { parent: 0, context: CONTEXT + context, rank: 0, body: launch_on(cuda_stream) };
        stream.put(thread, id, id, RecordBody::Start(start));
    }
    // `init` comes on the thread that launches, else on the first thread for all.
    for record in &mut stream.records {
        let launch = launches.iter().find(|(context, ..)| CONTEXT + context == record.id);
        record.slot = launch.map_or(record.slot, |launch| launch.1);
    }
    stream.build().model.comms.members.iter().map(|member| member.gpu).collect()
}

#[test]
fn communicators_on_one_cuda_stream_or_thread_are_on_one_gpu() {
    for (launches, gpus, why) in [
        (&[(0, 0, 0x70), (1, 0, 0x80), (2, 0, 0x70), (3, 0, 0x80)][..], [0, 1, 0, 1], "by stream"),
        (&[(0, 0, 1), (1, 1, 1), (2, 0, 1), (3, 1, 1)], [0, 1, 0, 1], "by thread: it works for one rank"),
        // CUDA's default streams have the same handle on every GPU.
        (&[(0, 0, 0), (3, 0, 0)], [0, 1, 2, 3], "the default stream"),
        (&[(0, 0, 1), (3, 0, 1)], [0, 1, 2, 3], "the legacy default stream"),
        (&[(0, 0, 2), (3, 0, 2)], [0, 1, 2, 3], "the default stream of a thread"),
        (&[(0, 0, 0x70), (1, 0, 0x70), (2, 0, 0x70), (3, 0, 0x70)], [0, 1, 2, 3], "ranks of one communicator differ"),
        (&[(0, 0, 0x70), (1, 0, 0x80), (2, 0, 0x70), (2, 0, 0x80)], [0, 1, 0, 2], "also by way of a third"),
    ] {
        assert_eq!(split(launches), gpus, "{why}");
    }
}

#[test]
fn devices_decide_which_ranks_share_a_gpu() {
    let gpus = |ordinals: [u32; 3]| {
        let mut stream = Stream::default();
        // Two ranks of one communicator, and a rank of another that uses the first rank's stream.
        stream.init(CONTEXT, 5, 2, 0).init(CONTEXT + 1, 5, 2, 1);
        stream.init(CONTEXT + 2, 6, 1, 0);
        for (context, ordinal) in (CONTEXT..).zip(ordinals) {
            stream.gpu(0, context, GpuRecord::DeviceOfCommunicator { ordinal });
        }
        for (context, handle) in [(0, 0x70), (1, 0x80), (2, 0x70)] {
            stream.event_of(CONTEXT + context, 10 + context, 0, (5, Some(6)), launch_on(handle));
        }
        stream.build().model.comms.members.iter().map(|member| member.gpu).collect::<Vec<u32>>()
    };
    assert_eq!(gpus([0, 1, 0]), [0, 1, 0]);
    assert_eq!(gpus([0, 1, 1]), [0, 1, 1]);
    assert_eq!(gpus([0, 1, 2]), [0, 1, 2]);
    // Two ranks of a communicator on one GPU, if CUDA reports so.
    assert_eq!(gpus([0, 0, 0]), [0, 0, 0]);
}

#[test]
fn cupti_may_number_devices_otherwise() {
    let mut stream = Stream::with_gpu();
    stream.collective(10, 100, false);
    let mut kernel = stream.kernel((150, 400));
    kernel.device = 0;
    stream.gpu(9000, 12, GpuRecord::Kernel(kernel));
    let built = stream.build();
    assert_eq!(built.location(LocationKey::Stream(STREAM)).len(), 1);
    assert_eq!(built.model.comms.gpus.len(), 1);
}

#[test]
fn where_devices_contradict_what_ran_there_is_believed() {
    let mut stream = Stream::default();
    for (number, device) in (0..).zip([3, 2]) {
        let context = CONTEXT + number;
        stream.init(context, 5, 2, i32::try_from(number).expect("small"));
        stream.gpu(0, context, GpuRecord::DeviceOfCommunicator { ordinal: 0 });
        stream.event_of(context, 10 + number, 0, (5, Some(6)), launch_on(0x70));
        let kernel = Kernel { device, ..stream.kernel((100, 200)) };
        stream.gpu(9000, 10 + number, GpuRecord::Kernel(kernel));
    }
    let built = stream.build();
    let comms = &built.model.comms;
    let gpus: Vec<_> = comms.members.iter().map(|member| comms.gpus[member.gpu as usize]).collect();
    assert_eq!([gpus[0].ordinal, gpus[1].ordinal], [Some(3), Some(2)]);
    let definition = timeline::definitions::gpu_work(&built.model.links.gpu, built.model.symbols);
    assert!(definition.notices[0].contains("believed"), "{definition:?}");
}
