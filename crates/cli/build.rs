//! Strips the tool: for a package with its own optimisation level, cargo strips only debug information.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("DEBUG").is_ok_and(|debug| debug == "false") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
