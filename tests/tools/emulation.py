"""CPUs that are not here, emulated by qemu-x86_64 (Debian's qemu-user): what it lacks of each model is switched off, as it warns of it otherwise."""
import platform
import shutil

_INTEL = "pcid=off,x2apic=off,tsc-deadline=off"
CPUS = {
    "Conroe": "Conroe",  # SSSE3
    "Nehalem": "Nehalem",  # SSE4.2
    "SandyBridge": "SandyBridge,x2apic=off,tsc-deadline=off",  # AVX
    "Haswell": f"Haswell,{_INTEL},invpcid=off,hle=off,rtm=off",  # AVX2, FMA
    "EPYC-Rome": "EPYC-Rome,rdseed=off,sha-ni=off,rdpid=off,xsavec=off,xsaves=off,3dnowprefetch=off,misalignsse=off,osvw=off,perfctr-core=off,topoext=off,"
                 "fxsr-opt=off,amd-stibp=off,clzero=off,ibpb=off,wbnoinvd=off,xsaveerptr=off,nrip-save=off",  # AVX2 by AMD
}
TOO_OLD = {"Conroe"}  # for oneDNN, which wants SSE4.1
# qemu 7.2 loses the index register of vgatherdps, with which oneDNN computes tanh on these; not so with ONEDNN_MAX_CPU_ISA=AVX.
WITHOUT_GATHER = {"Haswell", "EPYC-Rome"}
QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
AVAILABLE = QEMU is not None and platform.machine() == "x86_64"


def on(cpu):
    """The words to put before a command so that it runs on the CPU."""
    return [QEMU, "-cpu", CPUS[cpu]]
