import json

import numpy as np
import pytest
from mlbench_stable_diffusion_xl.architecture import SCHEDULER
from mlbench_stable_diffusion_xl.program import apply_guidance
from mlbench_stable_diffusion_xl.schedule import euler_schedule


@pytest.fixture(scope="module")
def case(golden):
    return json.loads((golden / "euler_scheduler" / "expected.json").read_text())


def test_the_20_official_levels_are_those_of_the_reference(case):
    schedule = euler_schedule(SCHEDULER, case["steps"])
    assert schedule.timesteps.tolist() == case["timesteps"]
    np.testing.assert_allclose(schedule.sigmas, case["sigmas"], rtol=0, atol=case["tolerance"]["sigmas_abs"])
    assert schedule.start_scale == pytest.approx(case["init_noise_sigma"], abs=1e-5)


def test_latents_go_through_the_steps_as_the_reference_takes_them(golden, case):
    inputs = np.load(golden / "euler_scheduler" / "inputs.npz")
    wanted = np.load(golden / "euler_scheduler" / "expected.npz")
    schedule, tolerance = euler_schedule(SCHEDULER, case["steps"]), case["tolerance"]["abs"]
    latents = inputs["latents"] * np.float32(schedule.start_scale)
    np.testing.assert_allclose(schedule.scaled(latents, 0), wanted["scaled_model_input_step0"], rtol=0, atol=tolerance)
    for step in range(case["steps"]):
        noise = np.concatenate([inputs["noise_uncond"][step], inputs["noise_text"][step]])
        latents = schedule.next(latents, apply_guidance(noise, case["guidance"]), step)
        if step in (0, 9):
            np.testing.assert_allclose(latents, wanted[f"latents_after_step{step}"], rtol=0, atol=tolerance)
    np.testing.assert_allclose(latents, wanted["latents_final"], rtol=0, atol=tolerance)
    assert latents.dtype == np.float32
