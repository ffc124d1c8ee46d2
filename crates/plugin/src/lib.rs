//! The shared library `libnccl-profiler-otf2.so`: exports what `recorder` exports, and nothing else.
//!
//! This is a separate package because a library that tests also link cannot be optimized as a whole, and would make
//! cargo compile the crates that it shares with the tool twice.

use recorder as _;
