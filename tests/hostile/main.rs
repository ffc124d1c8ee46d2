//! Callbacks as no NCCL should make them, and as some do: the program that makes them notices nothing, and what made
//! sense is in the archive.
//!
//! Each pitfall that a sequence of callbacks can express is a test: the plugin survives it, and its archive has no
//! faults.
//!
//! What no sequence of callbacks can express, and what there is instead:
//!
//! | pitfall | why | instead |
//! |---|---|---|
//! | 2.26 casts a table of version 2 to one of version 3 | NCCL's cast, before any callback; the pointers that it makes
//! nobody can follow | the plugin exports version 3 too, so NCCL never takes version 2 |
//! | "Proxy append out of bounds" with kernel channels and all-to-all, 2.26 to 2.27.7 | NCCL's own array | kernel
//! channels are off unless asked for; the plugin warns |
//! | kernel channels with a small `/dev/shm`, exhausted pools, leaking slots on aarch64 | memory of NCCL's | off unless
//! asked for; the warning comes with every release |
//! | kernel channels slow collectives down in 2.31.2 | it is the kernels that wait | the warning says so |
//! | teardown frees what NCCL still polls for kernel channels, 2.31.2 to 2.32.3 | no callback is involved | the warning
//! says so |
//! | collnet's array is overrun | NCCL's own array | nothing |
//! | tables of a fork with members beyond the sixth | NCCL reads them, not the plugin | the tables are followed by
//! zeros: `tests/abi` |
//! | CUDA's host-callback thread and the proxy's thread must not wait | a delay is no wrong answer |
//! `tests/cost`: neither allocation nor system call; `plugin-host bench` the nanoseconds |
//! | the library is closed under communicators that live | the host calls nothing then | it cannot be closed:
//! `tests/survival` |
//! | equal process ids in several containers | needs several processes | `tests/archive/pxn.rs` |
//! | copy-engine pollers that hold a slot while it is reused | threads of a plugin that has pollers | there are none
//! here |

mod callbacks;
mod drive;
mod ends;
mod graphs;
mod in_place;
mod interleavings;
mod process;
mod ranks;
mod threads;
mod version_7;
