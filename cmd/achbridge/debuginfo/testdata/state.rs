#[repr(C)]
pub struct Inner { pub x: f64, pub on: bool }
#[repr(u8)]
pub enum Mode { Idle = 0, Run = 2 }
#[repr(C)]
pub struct State { pub stamp: u64, pub q: [f32; 3], pub inner: Inner, pub mode: Mode, pub count: i16 }
pub struct Loose { pub a: u8, pub b: u64, pub c: u16 }
#[no_mangle] pub static STATE: State = State { stamp: 1, q: [0.5, 1.5, 2.5], inner: Inner { x: 2.5, on: true }, mode: Mode::Run, count: -3 };
#[no_mangle] pub static LOOSE: Loose = Loose { a: 1, b: 2, c: 3 };
