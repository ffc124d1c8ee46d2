//! The shared library `libnccl-profiler-otf2.so`: what `recorder` exports, and nothing else.
//!
//! It is a package of its own because a library that tests link, too, cannot be optimized as a whole, and would have
//! cargo compile the crates that it shares with the tool a second time.

use recorder as _;
