"""Photometric stereo: from photographs under several lights to normals, depth, a mesh and a page to relight the object.

Frame everywhere: x to the right, y up, z towards the camera.

>>> import maxsparse as ms
>>> scene = ms.stereo.make_scene(images, lights)              # doctest: +SKIP
>>> scene = ms.stereo.load("photographs/")                    # doctest: +SKIP
>>> result = ms.stereo.estimate_normals(scene)                # doctest: +SKIP
>>> result.normals.shape                                      # doctest: +SKIP
(512, 612, 3)
"""

from maxsparse.stereo.calibrate import Calibration, calibrate_lights
from maxsparse.stereo.capture import CaptureWarning
from maxsparse.stereo.estimate import NormalMap, estimate_normals
from maxsparse.stereo.integrate import integrate
from maxsparse.stereo.lamp_distance import LampDistance, estimate_lamp_distance
from maxsparse.stereo.lights import hemisphere_lights
from maxsparse.stereo.mesh import Mesh, make_mesh, write_mesh
from maxsparse.stereo.methods import METHODS, Fit, register
from maxsparse.stereo.output import write_all
from maxsparse.stereo.readers import load, read_lights
from maxsparse.stereo.render import render
from maxsparse.stereo.scene import FrameWarning, LightsWarning, Scene, make_scene
from maxsparse.stereo.self_calibration.estimate import LightEstimate, estimate_lights
from maxsparse.stereo.self_calibration.intensities import estimate_intensities
from maxsparse.stereo.viewer import write_viewer

__all__ = [
    "METHODS",
    "Calibration",
    "CaptureWarning",
    "Fit",
    "FrameWarning",
    "LampDistance",
    "LightEstimate",
    "LightsWarning",
    "Mesh",
    "NormalMap",
    "Scene",
    "calibrate_lights",
    "estimate_intensities",
    "estimate_lamp_distance",
    "estimate_lights",
    "estimate_normals",
    "hemisphere_lights",
    "integrate",
    "load",
    "make_mesh",
    "make_scene",
    "read_lights",
    "register",
    "render",
    "write_all",
    "write_mesh",
    "write_viewer",
]
