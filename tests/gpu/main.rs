//! GPU work, timed by CUDA events and by CUPTI, with stand-ins for driver and CUPTI; and what programs do to themselves
//! meanwhile.

mod cupti;
mod events;
mod life;
mod recorded;
mod run;
