//! What version 7 of the interface adds, and forks of NCCL that only say that they have it.

use whole_plugin::archive::Archive;
use whole_plugin::scratch::Scratch;

use crate::drive::archive_under;

/// Forks of NCCL before 2.31 export version 6's descriptors as version 7; behind their end lies what is on the stack.
#[test]
fn what_version_7_adds_is_read_from_2_31_on_only() {
    let script = "
        init c ranks=1 rank=0
        start a CollApi func=AllReduce count=1 datatype=ncclFloat32 user_tag=4711
        start x Coll parent=a func=AllReduce count=1 datatype=ncclFloat32 kernel_variant=AGxLL_R is_symmetric=1
        start k KernelCh parent=x channel=0
        start p KernelPhase parent=k channel=0 phase=1 phase_name=compute
        stop p
        stop k
        stop x
        stop a
        finalize c
    ";
    let scratch = Scratch::new();
    let archive = archive_under(Some(23_203), &scratch, 7, script);
    assert_eq!(archive.properties()["NCCL::VERSION"], "2.32.3");
    assert_eq!(archive.count("KERNELPHASE::SEEN"), 1);
    assert_eq!(archive.count("UNKNOWN::SEEN"), 0);

    // A fork: instead of the variant's name there is no pointer that anybody could follow.
    let fork = script.replace("kernel_variant=AGxLL_R", "@112=0xa5a5a5a5a5a5a5a5");
    let scratch = Scratch::new();
    let archive = archive_under(Some(22_809), &scratch, 7, &fork);
    assert_eq!(archive.properties()["NCCL::VERSION"], "2.28.9");
    assert_eq!(archive.count("KERNELPHASE::SEEN"), 0);
    assert_eq!(archive.count("UNKNOWN::SEEN"), 1);
    assert_eq!(archive.count("COLL::WRITTEN"), 1);
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
