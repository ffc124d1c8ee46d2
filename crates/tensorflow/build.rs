//! Sets the library's link arguments.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // TensorFlow keeps the addresses of its callbacks, and NCCL may be in the callback that the plugin calls.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The plugin looks for this soname among the loaded libraries.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccl-otf2-tensorflow.so");
}
