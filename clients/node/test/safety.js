// How a test says that a promise of safety is broken. No failure with the mark in it is ever excused
// as flaky. The mark stands nowhere else in the tests.
const mark = "SAFETY: ";

/** Fails the test unless fence is greater than before. */
export function rises(fence, before) {
  if (!(fence > before)) throw new Error(`${mark}fence ${fence} after ${before}`);
}

/** Fails the test unless inside, which counts the holders, is 1. */
export function isAlone(inside) {
  if (inside !== 1) throw new Error(`${mark}two hold: ${inside} are inside`);
}
