//! The fuzzer: libFuzzer's `main`, on the target that `FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    fuzz::TARGETS.iter().find(|target| target.name == name).expect("FUZZ_TARGET names a target")
});

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
