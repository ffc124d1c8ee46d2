//! What descriptors say: kinds, channels, ranks and times that no plugin should believe.

use crate::drive::Pitfall;

/// RCCL has up to 128 channels, and the descriptor's field takes 256.
#[test]
fn a_channel_is_beyond_what_nccl_has() {
    let pitfall = Pitfall::new(
        "sixty-four-channels",
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
    let ours = pitfall.ours();
    assert_eq!(ours.count("KERNELCH::WRITTEN"), 2);
    assert_eq!(ours.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(pitfall.control().count("0x40"), 2);
    pitfall.naive_with_fault().dies_by(libc::SIGABRT);
}

/// The client of NCCL's diagnosis asks for kinds that the plugin's version does not have, and forks add some.
#[test]
fn a_kind_is_unknown() {
    let pitfall = Pitfall::new(
        "assert-known",
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
    let ours = pitfall.ours();
    assert_eq!(ours.count("UNKNOWN::SEEN"), 2);
    assert_eq!(ours.count("GROUPAPI::WRITTEN"), 1);
    assert_eq!(pitfall.control().count("unknown"), 2);
    pitfall.naive_with_fault().dies_by(libc::SIGABRT);
}
