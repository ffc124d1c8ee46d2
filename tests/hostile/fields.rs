//! What descriptors say: kinds, channels, ranks and times that no plugin should believe.

use whole_plugin::archive::Archive;
use whole_plugin::scratch::Scratch;

use crate::drive::{archive_of, archive_under};

/// RCCL has up to 128 channels, and the descriptor's field takes 256.
#[test]
fn a_channel_is_beyond_what_nccl_has() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        4,
        "
        init c ranks=1 rank=0
        start x Coll func=AllReduce count=1
        start k KernelCh parent=x channel=127
        stop k
        start l KernelCh parent=x channel=255
        stop l
        start p ProxyOp parent=x channel=127 peer=1 steps=1 is_send=1
        stop p
        stop x
        finalize c
        ",
    );
    assert_eq!(ours.count("KERNELCH::WRITTEN"), 2);
    assert_eq!(ours.count("PROXYOP::WRITTEN"), 1);
}

/// The client of NCCL's diagnosis asks for kinds that the plugin's version does not have, and forks add some.
#[test]
fn a_kind_is_unknown() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        5,
        "
        init c ranks=1 rank=0
        start g GroupApi
        start u 0x10000
        stop u
        start v 3
        stop v
        stop g
        finalize c
        ",
    );
    assert_eq!(ours.count("UNKNOWN::SEEN"), 2);
    assert_eq!(ours.count("GROUPAPI::WRITTEN"), 1);
}

/// The shim for version 4 in 2.28 and later leaves the number of channels of a point-to-point operation unset.
#[test]
fn a_number_of_channels_is_garbage() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        4,
        "
        init c ranks=2 rank=0
        start x P2p func=Send count=1 datatype=ncclFloat32 peer=1 @60:1=0xcd
        stop x
        finalize c
        ",
    );
    assert_eq!(ours.count("P2P::WRITTEN"), 1);
}

/// The GPU's clock is 0 where a kernel wrote none, and its ring can be overrun: an end before the beginning.
#[test]
fn a_kernel_ends_before_it_begins_or_has_no_time() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        5,
        "
        init c ranks=1 rank=0
        start x Coll func=AllReduce count=1
        start a KernelCh parent=x channel=0 gpu_ns=1000
        state a KernelChStop gpu_ns=5000
        stop a
        start b KernelCh parent=x channel=1 gpu_ns=2000
        state b KernelChStop gpu_ns=1500
        stop b
        start d KernelCh parent=x channel=2 gpu_ns=0
        state d KernelChStop gpu_ns=3000
        stop d
        start e KernelCh parent=x channel=3 gpu_ns=4000
        state e KernelChStop gpu_ns=0
        stop e
        stop x
        finalize c
        ",
    );
    assert_eq!(ours.count("KERNELCH::WRITTEN"), 4);
    assert_eq!(ours.count("GPU_TIMES_SUSPICIOUS"), 3);
}

/// 2.28 to 2.31 leave the rank of API events 0, and that of groups and kernel channels always.
#[test]
fn a_rank_is_always_zero() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        5,
        "
        init c ranks=4 rank=3
        start g GroupApi rank=0
        start a CollApi parent=g rank=0 func=AllReduce count=1
        start x Coll parent=a rank=3 func=AllReduce count=1 datatype=ncclFloat32
        start k KernelCh parent=x rank=0 channel=0
        stop k
        stop x
        stop a
        stop g
        finalize c
        ",
    );
    assert_eq!(ours.count("COLLAPI::WRITTEN"), 1);
    // Of rank 0 it knows only that there is one.
    let definitions = ours.definitions();
    assert!(definitions.contains("rank 3/4\""), "{definitions}");
    assert!(!definitions.contains("rank 0/4\""), "{definitions}");
}

/// Forks before 2.31 export version 7's name with version 6's descriptors: what version 7 adds lies behind their end.
#[test]
fn a_fork_passes_shorter_descriptors_by_the_name_of_version_7() {
    let scratch = Scratch::new();
    let ours = archive_under(
        Some(22_809),
        &scratch,
        7,
        "
            init c ranks=1 rank=0
            start x Coll func=AllReduce count=1 datatype=ncclFloat32 @112=0xa5a5a5a5a5a5a5a5
            stop x
            finalize c
            ",
    );
    assert_eq!(ours.count("COLL::WRITTEN"), 1);
}

/// How often an attribute has a value in the archive, as `otf2-print` prints it.
fn values(archive: &Archive, attribute: &str, value: &str) -> usize {
    let events = archive.events();
    let wanted = format!("(\"{attribute}\" ");
    let lines = events.lines().filter(|line| line.contains(&wanted));
    lines.filter(|line| line.contains(value)).count()
}

/// What version 7 adds goes into the archive value by value where it is version 7, and is not there where a fork only
/// says so.
#[test]
fn what_version_7_adds_is_in_the_archive_of_a_release_that_has_it() {
    const SCRIPT: &str = "
        init c ranks=1 rank=0
        start x Coll func=AllGather count=1 datatype=ncclInt8 user_tag=7001 kernel_variant=AGxLL_R is_symmetric=1
        stop x
        start y Coll func=AllGather count=1 datatype=ncclInt8 user_tag=18446744073709551615 kernel_variant=AGxLLMC_ST
        stop y
        start p P2p func=Send peer=0 count=1 datatype=ncclInt8 user_tag=7002
        stop p
        start r P2p func=Recv peer=0 count=1 datatype=ncclInt8 user_tag=7006
        stop r
        start a CollApi func=AllGather count=1 datatype=ncclInt8 user_tag=7003
        stop a
        start q P2pApi func=Recv count=1 datatype=ncclInt8 user_tag=7004
        stop q
        start e CeColl func=AllGather count=1 datatype=ncclUint8 user_tag=7005
        stop e
        finalize c
    ";
    let added = [
        ("nccl.user_tag", "7001"),
        ("nccl.user_tag", "18446744073709551615"),
        ("nccl.user_tag", "7002"),
        ("nccl.user_tag", "7003"),
        ("nccl.user_tag", "7004"),
        ("nccl.user_tag", "7005"),
        ("nccl.user_tag", "7006"),
        ("nccl.kernel_variant", "AGxLL_R"),
        ("nccl.kernel_variant", "AGxLLMC_ST"),
    ];
    for (release, is_version_7) in [(23_203, true), (22_907, false)] {
        let scratch = Scratch::new();
        let archive = archive_under(Some(release), &scratch, 7, SCRIPT);
        assert_eq!(archive.count("COLL::WRITTEN"), 2);
        for (attribute, value) in added {
            let found = values(&archive, attribute, value) > 0;
            assert_eq!(found, is_version_7, "{release}: {attribute} {value}");
        }
    }
}

/// The kind is eight bytes wide since version 5. A plugin that kept one of them and the channel beside it took all
/// kernel channels but the first for something else.
#[test]
fn a_kernel_channel_is_not_the_first() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        5,
        "
        init c ranks=1 rank=0
        start x Coll func=AllReduce count=1
        repeat 4 {
            start k KernelCh parent=x channel=%i
            stop k
        }
        stop x
        finalize c
        ",
    );
    assert_eq!(ours.count("KERNELCH::WRITTEN"), 4);
    assert_eq!(ours.count("UNKNOWN::SEEN"), 0);
}
