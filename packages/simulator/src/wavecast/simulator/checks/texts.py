"""What findings say, and what to do about them."""

from __future__ import annotations

from wavecast.simulator.checks.finding import Check, Severity
from wavecast.simulator.checks.scan import Kind, Lack

CHECKS = {
    Kind.OTHER_BUFFER: Check.OTHER_BUFFER,
    Kind.LDS_BOUNDS: Check.LDS_BOUNDS,
    Kind.MISALIGNED: Check.MISALIGNED,
    Kind.NEVER_WRITTEN: Check.NEVER_WRITTEN,
    Kind.RACE: Check.RACE,
    Kind.COLLISION: Check.COLLISION,
    Kind.BARRIER_PLACES: Check.BARRIER,
    Kind.BARRIER_LANES: Check.BARRIER,
    Kind.EPOCHS: Check.UNCHECKED,
}
LACKS = {
    Lack.WRITE_BACK: Check.MISSING_RELEASE,
    Lack.WAIT: Check.MISSING_RELEASE,
    Lack.INVALIDATE: Check.MISSING_ACQUIRE,
    Lack.SCOPE: Check.SCOPE,
}
WARNINGS = (Check.SCOPE, Check.BARRIER)

HINTS = {
    Check.OTHER_BUFFER: "an index overflowed or a mask is missing at that line: the address left the buffer that its "
    "pointer argument points into, and happened to hit another",
    Check.LDS_BOUNDS: "the hardware reads 0 there and drops the write; ask for more LDS or correct the index",
    Check.NEVER_WRITTEN: "initialise it, mask the load, or let the launch that should have written it run first",
    Check.RACE: "put a barrier between the two (same workgroup), use atomics, or let each address have one owner "
    "(across workgroups nothing else orders them but a flag with release and acquire)",
    Check.COLLISION: "lanes of one store wrote different values to one address, and only one stays: strides that "
    "alias, or a mask that lets lanes of the next row through",
    Check.BARRIER: "every wave of the workgroup, with all lanes, must come to the same barrier: take it out of the "
    "branch",
    Check.EARLY_COPY: "the compiler is wrong, not the source: LLVM before llvm-project#117544 does this when registers "
    "run short, as Triton 3.6's; use a newer one, or change what the kernel keeps (num_warps, block sizes, num_stages)",
    Check.UNCHECKED: "check a smaller problem",
}
LACK_HINTS = {
    Lack.WRITE_BACK: "release before the flag is set: atomics with sem='release' and scope='gpu', or "
    "__hip_atomic_store(…, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); in assembly buffer_wbl2 sc1 and "
    "s_waitcnt vmcnt(0)",
    Lack.WAIT: "s_waitcnt vmcnt(0) between buffer_wbl2 and the flag's store: the write-back may still be under way; "
    "where the source has a release there, the compiler left it out, as LLVM did before llvm-project#178316: "
    "release after the last atomic that returns a value, or use a newer compiler",
    Lack.INVALIDATE: "acquire after the flag was seen: sem='acquire' and scope='gpu', or __ATOMIC_ACQUIRE at agent "
    "scope; in assembly buffer_inv sc1 after the flag's load was waited for",
    Lack.SCOPE: "release and acquire need one scope, and at least that of the device ('gpu' in Triton, agent in HIP)",
}
LACK_MESSAGES = {
    Lack.WRITE_BACK: "data that another workgroup wrote and announced by a flag, without a release before the flag",
    Lack.WAIT: "data that another workgroup wrote and announced by a flag, before its write-back was waited for",
    Lack.INVALIDATE: "data that another workgroup wrote, after its flag was seen, without the acquire that this needs",
    Lack.SCOPE: "data handed over with a release and an acquire of different scopes, or of less than the device's",
}


def severity_of(check: Check, *, is_fatal: bool = False) -> Severity:
    """How grave a finding is; ``is_fatal`` for a misaligned access that the hardware does not serve."""
    if check is Check.UNCHECKED:
        return Severity.NOTE
    if check in WARNINGS or (check is Check.MISALIGNED and not is_fatal):
        return Severity.WARNING
    return Severity.ERROR
