//! What version 7 of the interface adds, and forks of NCCL before 2.31 that export version 6's descriptors as version
//! 7: behind their end lies what is on the stack.

use whole_plugin::scratch::Scratch;

use crate::drive::archive_under;

const SCRIPT: &str = "
    init c ranks=1 rank=0
    start x Coll func=AllGather count=1 datatype=ncclInt8 user_tag=7001 kernel_variant=AGxLL_R is_symmetric=1
    start k KernelCh parent=x channel=0
    start h KernelPhase parent=k channel=0 phase=1 phase_name=compute
    stop h
    stop k
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

/// Attributes that version 7 adds, with the values of the script.
const ADDED: [(&str, &str); 9] = [
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

/// What version 7 adds goes into the archive value by value from 2.31 on, and is not looked at where a fork only says
/// that it is version 7: instead of a variant's name the fork has no pointer that anybody could follow.
#[test]
fn what_version_7_adds_is_read_from_2_31_on_only() {
    let fork = SCRIPT.replace("kernel_variant=AGxLL_R", "@112=0xa5a5a5a5a5a5a5a5");
    for (release, version, script) in
        [(23_203, "2.32.3", SCRIPT), (22_907, "2.29.7", SCRIPT), (22_809, "2.28.9", &fork)]
    {
        let is_version_7 = release >= 23_100;
        let scratch = Scratch::new();
        let archive = archive_under(Some(release), &scratch, 7, script);
        let properties = archive.properties();
        assert_eq!(properties["NCCL::VERSION"], version);
        assert!(!properties.contains_key("NCCL::LIBRARY"), "it is not RCCL");
        assert_eq!(archive.count("COLL::WRITTEN"), 2, "{version}");
        let phase_counts = [archive.count("KERNELPHASE::SEEN"), archive.count("UNKNOWN::SEEN")];
        assert_eq!(phase_counts, if is_version_7 { [1, 0] } else { [0, 1] }, "{version}");
        let events = archive.events();
        for (attribute, value) in ADDED {
            let wanted = format!("(\"{attribute}\" ");
            let is_there = events.lines().any(|line| line.contains(&wanted) && line.contains(value));
            assert_eq!(is_there, is_version_7, "{version}: {attribute} {value}");
        }
    }
}
