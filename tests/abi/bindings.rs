//! The checked-in bindings are what bindgen makes of wrapper.h.

use super::root;

#[path = "../../build.rs"]
#[expect(dead_code, reason = "the test calls what makes the bindings, and not the build")]
mod build;

#[test]
fn the_checked_in_bindings_are_current() {
    if let Err(missing) = bindgen_needs_libclang() {
        // A machine without libclang can build and use the plugin; only this comparison needs it.
        return whole_plugin::machine::skip(&missing.to_string());
    }
    let fresh = build::generate_bindings(&root().join("wrapper.h")).expect("bindgen reads wrapper.h");
    let checked_in = std::fs::read_to_string(root().join("src/abi/bindings.rs")).expect("read");
    let difference =
        fresh.lines().zip(checked_in.lines()).enumerate().find(|(_, (fresh, checked_in))| fresh != checked_in);
    assert!(
        fresh == checked_in,
        "src/abi/bindings.rs is not what wrapper.h says (first at {difference:?}): \
         BINDGEN_WRITE=1 cargo build --features buildtime-bindgen"
    );
}

/// bindgen loads libclang when it is first used, and panics where there is none.
fn bindgen_needs_libclang() -> Result<(), String> {
    std::panic::catch_unwind(|| {
        let _ = bindgen::clang_version();
    })
    .map_err(|_| "libclang cannot be loaded (LIBCLANG_PATH, package libclang-dev)".to_owned())
}
