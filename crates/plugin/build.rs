//! Sets the plugin's link arguments.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // NCCL closes the plugin with the last communicator and may load it again. The maintenance thread's code and the
    // handles of late callbacks must stay valid after that.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccl-profiler-otf2.so");
}
